"""The API over HTTP and JSON, for browsers and other clients without gRPC.

The extra `[http]` installs the dependencies of this package.
"""
