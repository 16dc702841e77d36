"""What a server counts and measures, and the HTTP port where Prometheus reads it."""
