"""Requests over HTTP are read as calls are."""

from collections.abc import Iterator

import pytest
from starlette.types import Message, Scope

from tensor_reshape.server.http.requests import DisconnectedError, read_message, read_metadata


def make_scope(method: str = "POST", headers: tuple[tuple[bytes, bytes], ...] = (), query: bytes = b"") -> Scope:
    return {"type": "http", "method": method, "headers": headers, "query_string": query}


async def read(scope: Scope, *events: Message) -> bytes:
    waiting: Iterator[Message] = iter(events)

    async def receive() -> Message:
        return next(waiting)

    return await read_message(scope, receive)


def test_headers_are_metadata_if_grpc_admits_them():
    headers = ((b"x-request-id", b"a"), (b"x-name", "ü".encode()), (b"x-bin", b"b"), (b"y", b"c"), (b"y", b"d"))
    assert read_metadata(make_scope(headers=headers)) == [("x-request-id", "a"), ("y", "c"), ("y", "d")]


async def test_message_is_the_body_of_a_post_or_the_query_of_a_get():
    first, last = {"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.request", "body": b"b"}
    assert await read(make_scope(query=b"c"), first, last) == b"ab"
    assert await read(make_scope("GET", query=b"a=%20b")) == b"a=%20b"
    with pytest.raises(DisconnectedError):
        await read(make_scope(), first, {"type": "http.disconnect"})
