"""OpenTelemetry traces of calls. The package is optional: only a server started with `--tracing` imports it."""
