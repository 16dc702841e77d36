"""The server, which adds sockets, threads, configuration and logs to `wire` and `rules`.

The server needs the extra `[server]`.

The server uses threads instead of asyncio. Threads are as fast as asyncio for one client, and faster for large unary
messages. A strided gather may take hundreds of milliseconds, which would block an event loop. Requests arrive as bytes.
If a request has the usual encoding, its payload remains a view of these bytes, and one join creates the response.

The server has these layers, from top to bottom.

- `workers` starts processes, and each process runs a `runner`.
- `transports` chooses the server of a runner, which is `handlers` on `grpc_core` or `fallback`.
- `engine` controls the progress of each call.
- `service` computes the response of a call.

Three more packages support the layers. `builtin` has health checks and reflection. `transport` has listeners and
channel arguments. `process` has the logs, threads and limits of one process.
"""
