"""The service as a deployment of Ray Serve. The extra `[ray]` installs its dependencies."""
