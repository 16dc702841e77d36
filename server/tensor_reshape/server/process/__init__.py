"""Manages the logs, threads, memory, signals and periodic tasks of one process."""
