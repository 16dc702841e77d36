"""The server: sockets, threads, configuration and logs around `wire` and `rules`. Needs the extra `[server]`.

Why threads and not asyncio: equally fast for one caller, faster for large unary messages, and a strided gather of
hundreds of milliseconds never blocks an event loop. Requests come in as bytes; of those in the form that clients write,
the payload is never handed to a generated class, but stays a view of them, and the response is one join.

From the top: `workers` are processes, each with a `runner`. `transports` chooses the server of a runner: `handlers` on
`grpc_core`, or `fallback`. `engine` decides about each call, `service` answers it, `builtin` has health, reflection and
channelz. `transport` has listeners and channel arguments, `process` has what one process needs.
"""
