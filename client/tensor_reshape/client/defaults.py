"""Default values of a client, in a module of their own for code that only displays them."""

DEFAULT_TARGET = "localhost:50051"
DEFAULT_TIMEOUT_SECONDS = 30.0
