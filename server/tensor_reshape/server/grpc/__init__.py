"""The server that uses gRPC's core directly. This package uses private parts of grpcio.

- The module `calls` has the class of a call. The module `servers` has the thread that receives calls, and lists the
  private parts of grpcio that this package uses.
- The module `servers` also makes a test call when the server starts. The server does not start if this call fails, or
  if the installed release of grpcio is not tested.
- The module `handlers` has the calls of the server's methods, and `services` groups methods that share an engine.
"""
