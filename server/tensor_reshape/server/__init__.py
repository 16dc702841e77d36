"""The server: sockets, threads, configuration and logs around `wire` and `rules`. Needs the extra `[server]`.

The server uses threads instead of asyncio. Threads are equally fast for one client and faster for large unary messages,
and a strided gather of hundreds of milliseconds cannot block an event loop. Requests arrive as bytes. If a request has
the usual encoding, its payload stays a view of these bytes, and the response is one join.

The layers, from top to bottom: `workers` starts processes, each with a `runner`. `transports` chooses the server of a
runner: `handlers` on `grpc_core`, or `fallback`. `engine` decides about each call, and `service` computes the response.
`builtin` has health and reflection. `transport` has listeners and channel arguments. `process` has logs, threads and
limits of one process.
"""
