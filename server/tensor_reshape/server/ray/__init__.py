"""Serves the API as a deployment of Ray Serve. The extra `[ray]` installs the dependencies of this package."""
