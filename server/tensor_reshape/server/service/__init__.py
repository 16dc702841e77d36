"""The methods of the service as functions from request bytes to response bytes.

This package imports no gRPC, threads or clocks. import-linter checks that.
"""
