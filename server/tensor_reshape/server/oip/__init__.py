"""The Open Inference Protocol, on the same port as the project's own contract."""
