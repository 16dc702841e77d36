"""Writes the tables of pages that are generated from the code: `python -m verification.document`."""
