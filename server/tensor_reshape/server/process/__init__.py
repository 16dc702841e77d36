"""Logs, threads, memory, signals and heartbeats of one process."""
