"""The service as a deployment of Ray Serve. The extra `[ray]` installs what it needs."""
