"""The worker processes that serve the same ports, and the supervisor of these workers."""
