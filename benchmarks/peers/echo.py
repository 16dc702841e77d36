"""A bare ASGI application that returns the body of a request, on the ASGI server of the project's HTTP port."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

_Event = MutableMapping[str, Any]


async def echo(
    _scope: _Event, receive: Callable[[], Awaitable[_Event]], send: Callable[[_Event], Awaitable[None]]
) -> None:
    """Responds with the body of the request."""
    parts, has_more = [], True
    while has_more:
        event = await receive()
        parts.append(event.get("body", b""))
        has_more = event.get("more_body", False)
    body = b"".join(parts)
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve(address: str) -> None:
    """Serves forever."""
    host, _, port = address.rpartition(":")
    uvicorn.run(
        echo,
        host=host,
        port=int(port),
        loop="asyncio",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=3600,  # a connection waits while other contestants are measured
    )
