"""The server that uses gRPC's core directly. Only this package uses private parts of grpcio.

- The module `binding` lists the private parts of grpcio that this package uses, and the tested releases of grpcio.
- The module `calls` has the class of a call. The module `servers` has the thread that receives calls. The module
  `probes` makes a test call to check whether this package can serve.
- No other package uses `grpc._cython`. If this package cannot serve with the installed grpcio, the fallback server is
  used instead.
"""
