"""The service as a deployment of Ray Serve, for whoever runs a Ray cluster: what the extra `[ray]` adds."""
