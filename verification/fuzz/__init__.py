"""Compares the reader of messages with the generated classes, on as many inputs as there is time for."""
