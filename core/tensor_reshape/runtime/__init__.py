"""Contains helpers for the process of a client or a server, for example for its memory allocator and its caches."""
