"""The server's settings, grouped by subject. Each is declared once."""
