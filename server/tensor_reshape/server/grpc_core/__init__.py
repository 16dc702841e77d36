"""The server on gRPC's core. Only this package uses parts of grpcio that are not public.

- `binding` lists these parts and the tested releases of grpcio.
- `calls` is one call, `servers` is the thread that receives calls, and `probes` makes a test call.
- No other package names a part of `grpc._cython`. If this package cannot be used, the fallback server is.
"""
