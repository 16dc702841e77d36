"""The service as a deployment of Ray Serve. The extra `[ray]` installs the dependencies of this package."""
