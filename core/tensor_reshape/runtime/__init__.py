"""Helpers for the process and the machine of a client or a server, such as its allocator and its caches."""
