"""The server that uses gRPC's core directly. Only this package uses private parts of grpcio.

- `binding` lists the private parts of grpcio that the package uses, and the tested releases of grpcio.
- `calls` has the class of a call. `servers` has the thread that receives calls. `probes` tests with a call whether the
  package can serve.
- No other package uses `grpc._cython`. If this package cannot serve with the installed grpcio, the fallback server is
  used instead.
"""
