"""What a server can be told: each setting is declared once, with others of its subject."""
