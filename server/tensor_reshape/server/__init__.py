"""The server: sockets, threads, configuration and logs around `wire` and `rules`. Needs the extra `[server]`.

Why threads and not asyncio: equally fast for one caller, faster for large unary messages, and a strided gather of
hundreds of milliseconds never blocks an event loop. Payload bytes are never handed to a generated class: requests come
in as bytes, the payload stays a view of them, and the response is one join.
"""
