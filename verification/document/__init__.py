"""Writes the tables of the pages that follow from the code: `python -m verification.document`."""
