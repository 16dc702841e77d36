"""The methods of ReshapeService as functions from request bytes to response bytes.

The package `service` imports no gRPC, threads or clocks. import-linter checks its imports.
"""
