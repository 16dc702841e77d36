"""Compares inferred shapes with brute force, and sends the queries over the wire and back."""
