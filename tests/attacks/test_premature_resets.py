"""Calls that are reset before they are answered: who resets too many is closed, and nobody else."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, SECONDS, SERVICE_PATH, Connection, Kind, frame, grpc_message
from plain_requests import STATIC_RESHAPE, build_begin, build_chunk, build_static_request
from server_processes import run_server
from strangers import retry

SOME = 35  # at once: less than a connection may have, above which the transport refuses calls
CANCEL = b"\0\0\0\x08"
LINE = "closing connections that cost too much: reset calls, or endless headers"
IN_NO_TIME = ("grpc-timeout", "1m")


def reset(connection: Connection, path: str, *headers: tuple[str, str], data: bytes = b"") -> None:
    """Begins some calls, and resets each at once."""
    for _ in range(SOME):
        stream = connection.open(path, headers=headers)
        body = frame(Kind.DATA, 1, stream, data) if data else b""
        connection.send(body + frame(Kind.RST_STREAM, 0, stream, CANCEL))


def is_closed_for(resetting: Callable[[], None], connection: Connection) -> bool:
    """Does it again and again, and returns whether the connection is closed because of it."""
    deadline = time.monotonic() + SECONDS
    with suppress(OSError):
        while not connection.closed and time.monotonic() < deadline:
            resetting()
            connection.await_(lambda: bool(connection.closed), seconds=0.01)
    return connection.await_(lambda: bool(connection.closed))


def call(connection: Connection) -> bool:
    return connection.call(STATIC_RESHAPE, build_static_request()).is_ok


def test_connections_that_reset_calls_are_closed(serving: str):
    message = grpc_message(build_static_request())
    with run_server("--serving", serving) as server, Connection(server.address) as polite:
        for path, data in ((STATIC_RESHAPE, b""), (HEALTH_CHECK, b""), (REFLECTION, b""), (STATIC_RESHAPE, message)):
            assert call(polite)
            with Connection(server.address) as stranger:
                resetting = partial(reset, stranger, path, data=data)
                assert is_closed_for(resetting, stranger), (path, data)
        assert call(polite)


def test_connections_are_closed_sooner_if_their_address_did_it_before(serving: str):
    with run_server("--serving", serving, "--max-resets-per-second", "1") as server:
        with Connection(server.address) as stranger:
            assert is_closed_for(lambda: reset(stranger, STATIC_RESHAPE), stranger)
        with Connection(server.address) as again, suppress(OSError):
            for _ in range(4):  # less than what the first one had
                reset(again, STATIC_RESHAPE)
                call(again)
            assert again.await_(lambda: bool(again.closed))


def has_answers(connection: Connection, stream: int, count: int) -> bool:
    body = bytes(connection.bodies.get(stream, b""))
    for _ in range(count):
        size = 5 + int.from_bytes(body[1:5])
        if len(body) < max(size, 5):
            return False
        body = body[size:]
    return True


def test_connections_that_cancel_for_a_reason_go_on(serving: str):
    with run_server("--serving", serving) as server, Connection(server.address) as polite:
        for _ in range(10):  # calls that run out of time
            reset(polite, STATIC_RESHAPE, IN_NO_TIME)
            assert retry(lambda: call(polite))
        for _ in range(10):  # as many calls as are answered
            reset(polite, STATIC_RESHAPE)
            answered = 0
            while answered < SOME:
                answered += call(polite)
        for _ in range(5 * SOME):  # watches
            stream = polite.open(HEALTH_WATCH)
            polite.send_data(stream, grpc_message(b""))
            assert polite.await_(partial(polite.bodies.__contains__, stream))
            polite.send(frame(Kind.RST_STREAM, 0, stream, CANCEL))
        for _ in range(5 * SOME):  # streams whose answers have come
            stream = polite.open(f"{SERVICE_PATH}StreamReshape")
            polite.send_data(stream, grpc_message(build_begin([6])) + grpc_message(build_chunk(0, bytes(24))))
            assert polite.await_(partial(has_answers, polite, stream, 2))
            polite.send(frame(Kind.RST_STREAM, 0, stream, CANCEL))
        assert retry(lambda: call(polite))
        assert server.stop() == 0
    assert LINE not in [record["message"] for record in server.records]


def test_connections_that_end_all_their_calls_at_once_go_on(serving: str):
    with run_server("--serving", serving) as server, Connection(server.address) as polite:
        reset(polite, STATIC_RESHAPE)
        reset(polite, STATIC_RESHAPE)
        assert retry(lambda: call(polite))


@pytest.mark.parametrize("path", [STATIC_RESHAPE, f"{SERVICE_PATH}StreamReshape"])
def test_connections_whose_messages_are_too_large_go_on(path: str):
    # Inline alone: grpcio tells its threads no more than that such a caller is gone.
    with (
        run_server("--serving", "inline", "--max-resets-per-second", "1") as server,
        Connection(server.address) as polite,
    ):
        for _ in range(5):
            streams = [polite.open(path) for _ in range(SOME)]
            polite.send(b"".join(frame(Kind.DATA, 0, stream, b"\0\xff\xff\xff\xff") for stream in streams))
            assert all("larger than max" in polite.await_end(stream).message for stream in streams)
        assert call(polite)
        assert server.stop() == 0
    assert LINE not in [record["message"] for record in server.records]


def test_the_rate_of_resets_is_an_option(serving: str):
    with (
        run_server("--serving", serving, "--max-resets-per-second", "1000") as server,
        Connection(server.address) as stranger,
    ):
        for _ in range(10):
            reset(stranger, STATIC_RESHAPE)
            assert retry(lambda: call(stranger))
