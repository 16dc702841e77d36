"""Makes the same calls with third-party clients, and compares each result with the rules."""
