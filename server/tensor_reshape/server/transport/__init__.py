"""The listeners of a server, the choice of gRPC's I/O engine, and gRPC's channel arguments."""
