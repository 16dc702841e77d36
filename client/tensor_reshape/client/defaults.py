"""Default values of a client. Code that only displays the default values can import this module without gRPC."""

DEFAULT_TARGET = "localhost:50051"
DEFAULT_TIMEOUT_SECONDS = 30.0
