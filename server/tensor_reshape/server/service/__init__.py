"""Bytes to bytes: what each method answers. Nothing here knows of gRPC, a thread or a clock."""
