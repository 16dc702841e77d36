"""Worker processes that serve the same ports, and their supervisor."""
