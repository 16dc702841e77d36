"""The gRPC server, which adds sockets, threads, configuration and logs to the packages `wire` and `rules`.

The server needs the extra `[server]`.

The server uses threads instead of asyncio. Threads are as fast as asyncio for one client, and faster for large unary
messages. Copying a tensor with strides may take hundreds of milliseconds, which would block an event loop. gRPC's core
passes each request to the server as bytes. If a request has the usual protobuf encoding, the server copies its tensor
elements only once, when `bytes.join` creates the response.

The packages and modules of the server form these layers, from top to bottom.

- The package `workers` starts processes, and each process runs the module `runner`.
- The package `grpc` serves calls on gRPC's core.
- The package `engine` is the admission control, which decides when a call may continue.
- The package `service` computes the response of a call.

The package `process` supports these layers. It contains the code for the listeners, logs, threads and resource limits
of one process.
"""
