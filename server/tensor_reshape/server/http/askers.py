"""How a request over HTTP is answered: here at once, without a server of gRPC's beside; `calls` has the other way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.statuses import choose_end
from tensor_reshape.server.http.answers import build_answer, build_refusal, send_answer
from tensor_reshape.server.http.requests import DisconnectedError, read_message, read_metadata
from tensor_reshape.server.service.method_tables import Method

Asker: TypeAlias = Callable[[Method, Scope, Receive, Send], Awaitable[None]]
"""Has a method answer the message of a request, and sends that, or the refusal."""


async def ask_here(method: Method, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without asking whose request it is, and without a budget: for a server of one user."""
    head = CallHead(method.name, read_metadata(scope))
    try:
        message = await read_message(scope, receive)
        answer = build_answer(await asyncio.to_thread(method.answer, message, lambda: False))
    except DisconnectedError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
        answer = build_refusal(choose_end(error, head))
    await send_answer(answer, send)
