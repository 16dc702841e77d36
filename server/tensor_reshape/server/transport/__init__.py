"""Sockets, listeners and what is told to the core of gRPC about connections."""
