"""Health and reflection: services that must respond even when the server is overloaded."""
