"""Restarts servers, kills them and has them refuse everything, and says what their callers lost."""
