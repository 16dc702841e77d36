"""Direct execution of HTTP requests, without a gRPC server. `calls` executes them as calls of a server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from tensor_reshape.server.engine.call_info import CallInfo
from tensor_reshape.server.engine.statuses import build_failure
from tensor_reshape.server.http.answers import build_answer, build_rejection, send_answer
from tensor_reshape.server.http.requests import DisconnectedError, read_message, read_metadata
from tensor_reshape.server.service.method_tables import Method

Asker: TypeAlias = Callable[[Method, Scope, Receive, Send], Awaitable[None]]
"""Runs a method on the message of a request, and sends the response or the error."""


async def ask_here(method: Method, scope: Scope, receive: Receive, send: Send) -> None:
    """Runs a method without authorization and without a memory budget, for a server of one user."""
    info = CallInfo(method.name, read_metadata(scope))
    try:
        message = await read_message(scope, receive)
        answer = build_answer(await asyncio.to_thread(method.respond, message, lambda: False))
    except DisconnectedError:
        return
    except Exception as error:  # noqa: BLE001 - the client gets no details of a bug
        answer = build_rejection(build_failure(error, info))
    await send_answer(answer, send)
