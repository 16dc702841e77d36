"""Compares what is inferred of shapes with brute force, and over the wire and back."""
