"""What a client is made with where nobody says otherwise; apart, for whoever only shows it."""

DEFAULT_TARGET = "localhost:50051"
DEFAULT_TIMEOUT_SECONDS = 30.0
