"""Bytes to bytes: what each method answers. Nothing here imports gRPC, threads or a clock: import-linter holds it."""
