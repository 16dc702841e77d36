"""Counters and gauges of a server, and the HTTP port that Prometheus scrapes."""
