"""Several processes that serve the same ports, and the one that keeps them."""
