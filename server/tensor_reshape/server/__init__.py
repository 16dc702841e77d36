"""The server: sockets, threads, configuration and logs around `wire` and `rules`. Needs the extra `[server]`.

Why threads and not asyncio: equally fast for one caller, faster for large unary messages, and a strided gather of
hundreds of milliseconds never blocks an event loop. Requests come in as bytes; of those in the form that clients write,
the payload is never handed to a generated class, but stays a view of them, and the response is one join.

From the top: `workers` are processes, each with a `runner`; a runner serves `calls` of its `service`, and `auxiliary`
ones that say how it is and what it offers; `transport` is about sockets, `process` about what a process has.
"""
