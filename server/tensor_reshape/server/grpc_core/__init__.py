"""The server on gRPC's core. Only this package uses private parts of grpcio.

- `binding` lists these parts and the tested releases of grpcio.
- `calls` has the class of a call. `servers` has the thread that receives calls. `probes` makes a test call.
- No other package uses `grpc._cython`. If this package cannot serve, the fallback server is used instead.
"""
