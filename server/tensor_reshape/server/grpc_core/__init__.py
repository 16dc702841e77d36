"""The seam to gRPC: the only package that uses parts of grpcio which are not public.

- `binding` lists those parts once, and says with which releases of grpcio they were tested.
- `calls` is one call, `servers` the thread that receives calls, `probes` the call that shows that both work here.
- Nothing above this package names a part of `grpc._cython`. If the seam cannot be used, `stock` serves.
"""
