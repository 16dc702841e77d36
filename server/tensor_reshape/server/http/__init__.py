"""Serves the API over HTTP in its own process: as JSON, Connect, and the Open Inference Protocol over REST.

`app` is an ordinary ASGI application. Any ASGI server can run it, for example with the command
`uvicorn tensor_reshape.server.http:app`. The application reads the settings of the command `tensor-reshape http` from
the environment. The extra `[http]` installs uvicorn.

This package imports neither grpc nor the engine.
"""

from typing import TYPE_CHECKING, Any

from tensor_reshape.runtime.lazy_imports import describe_missing
from tensor_reshape.server.config import ConfigError

if TYPE_CHECKING:
    from tensor_reshape.server.http.asgi import Receive, Scope, Send
    from tensor_reshape.server.http.servers import HttpServer

_applications: list[Any] = []  # the application of this process, or empty before its first event


async def app(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Handles an HTTP request, or the start and the end of the process (ASGI's lifespan protocol).

    Raises:
        ConfigError: the settings in the environment are invalid, and the ASGI server does not support the lifespan
            protocol.
    """
    if not _applications:
        # This import stands in the function, because an import of this package must not import the whole server.
        from tensor_reshape.server.http.commands import build_from_environment  # noqa: PLC0415

        try:
            _applications.append(build_from_environment())
        except ConfigError as error:
            if scope["type"] != "lifespan":
                raise
            await receive()
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
    await _applications[0](scope, receive, send)


def import_server() -> "type[HttpServer]":
    """Returns the class `HttpServer`, which needs the extra `[http]`.

    Raises:
        ConfigError: the extra `[http]` is not installed.
    """
    try:
        from tensor_reshape.server.http.servers import HttpServer  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ConfigError(describe_missing("--http-listen", "http", error)) from error
    return HttpServer
