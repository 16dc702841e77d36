"""OpenTelemetry traces of calls. Only a server with the option `--tracing` imports this package."""
