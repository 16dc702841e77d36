"""Measures what the tests notice: changes the code of a package, one place at a time, and runs its tests."""
