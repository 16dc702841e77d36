"""The methods of ReshapeService as functions from request bytes to response bytes.

The package `service` imports neither gRPC nor modules for threads or clocks. The tool import-linter checks this.
"""
