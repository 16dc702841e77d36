"""Health, reflection and channelz: services that must respond even when the server is overloaded."""
