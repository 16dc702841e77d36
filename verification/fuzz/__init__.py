"""Compares the message parser with the generated classes, on as many inputs as there is time for."""
