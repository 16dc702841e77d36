"""What OpenTelemetry is told of calls: optional, and imported where a server is started with `--tracing` alone."""
