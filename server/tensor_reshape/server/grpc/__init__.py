"""The server that uses gRPC's core directly. This package uses private parts of grpcio.

- The module `binding` lists the private parts of grpcio that this package uses, and the tested releases of grpcio.
- The module `calls` has the class of a call. The module `servers` has the thread that receives calls.
- The module `self_test` makes a test call when the server starts. The server does not start if this call fails, or if
  the installed release of grpcio is not tested.
"""
