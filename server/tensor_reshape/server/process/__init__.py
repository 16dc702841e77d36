"""What one process has beside its calls: logs, threads, memory, descriptors."""
