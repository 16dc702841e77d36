"""Writes what of the pages follows from the code; `scripts/document`."""
