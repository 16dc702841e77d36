"""The server that uses gRPC's core directly. This package uses private parts of grpcio.

- The module `calls` has the base class of all calls. The module `servers` has the thread that receives calls, and lists
  the private parts of grpcio that this package uses.
- The module `servers` also makes a test call when the server starts. The server does not start if this call fails, or
  if the installed release of grpcio is not tested.
- The module `handlers` has the classes that handle calls of the server's methods. The module `services` groups methods
  that share an engine.
"""
