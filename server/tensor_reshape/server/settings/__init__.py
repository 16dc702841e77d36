"""The server's settings, grouped by subject. Each setting is declared once."""
