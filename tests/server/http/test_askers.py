"""A request is answered here, in the process of whoever asks."""

import json

import httpx
import pytest

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.http.apps import MethodApp
from tensor_reshape.server.http.askers import ask_here
from tensor_reshape.server.service.methods import IsOver, Method


def answer(message: bytes, _is_over: IsOver) -> bytes:
    """Says what came."""
    if message == b"bug":
        text = "secret"
        raise ValueError(text)
    if message == b"wrong":
        raise InvalidRequestError.of(Reason.DIM_UNREADABLE, "text", "field")
    return json.dumps(message.decode()).encode()


async def ask(query: str) -> httpx.Response:
    app = MethodApp(Method("/a/b", answer, lambda _message: None), ask_here)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        return await client.get(f"/?{query}")


async def test_a_method_answers_what_is_behind_the_question_mark():
    assert (await ask("x=1")).json() == "x=1"


@pytest.mark.parametrize(("query", "code"), [("bug", 500), ("wrong", 400)])
async def test_what_ends_badly_is_a_status(query: str, code: int):
    answer = await ask(query)
    assert answer.status_code == code
    assert "secret" not in answer.text
