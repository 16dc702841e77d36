"""The servers that are measured, each in a process of its own: `python -m benchmarks.servers.NAME ADDRESS`."""
