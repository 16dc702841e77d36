"""Asks real libraries what the conformance kit asks, and writes what they answer."""
