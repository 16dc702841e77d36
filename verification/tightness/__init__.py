"""Measures how often an inferred shape is wider than the hull of its instances."""
