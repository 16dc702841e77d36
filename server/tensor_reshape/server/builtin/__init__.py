"""The health and reflection services, which must respond even if the server is overloaded."""
