"""Writes logs, metrics and traces of calls, and serves the port that Prometheus scrapes."""
