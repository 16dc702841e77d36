"""A request is answered in the process that asks."""

import json

import httpx

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.http.apps import MethodApp
from tensor_reshape.server.http.askers import ask_here
from tensor_reshape.server.service.method_tables import IsOver, Method


def answer(message: bytes, _is_over: IsOver) -> bytes:
    if message == b"bug":
        text = "secret"
        raise ValueError(text)
    if message == b"wrong":
        raise InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, "text", "field")
    return json.dumps(message.decode()).encode()


async def test_query_is_answered_or_rejected():
    app = MethodApp(Method("/a/b", answer, lambda _message: None), ask_here)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        assert (await client.get("/?x=%201")).json() == "x=%201"
        for query, code in (("bug", 500), ("wrong", 400)):
            rejection = await client.get(f"/?{query}")
            assert rejection.status_code == code
            assert "secret" not in rejection.text
