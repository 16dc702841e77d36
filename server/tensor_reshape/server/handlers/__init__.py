"""What serves the calls of the service on gRPC's core: `calls` performs what the engine decides."""
