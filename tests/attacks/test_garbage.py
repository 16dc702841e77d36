"""What is no message is refused in the same way by every service, and leaves nothing in the log."""

import pytest

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, SERVICE_PATH, Connection, grpc_message
from server_processes import ServerProcess, run_server

HEALTH_LIST = "/grpc.health.v1.Health/List"
OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED = "0", "3", "5", "8"
LONG_NAME = b"\x0a\x88\x27" + b"A" * 5000
TOO_LONG_NAME = b"\x0a\x80\x80\x40" + b"A" * (1 << 20)
BAD_UTF8 = b"\x0a\x02\xff\xfe"
TRUNCATED = b"\x0a\x05a"
PATHS = (HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, REFLECTION)
# A line for each call that is refused, and how many were left out: nothing else is said of garbage.
REFUSALS = ("refused", "records suppressed")


@pytest.fixture(scope="module", params=["inline", "threads"])
def quiet(request: pytest.FixtureRequest):
    with run_server("--serving", request.param) as server:
        yield server
        assert server.stop() == 0
        messages = [record["message"] for record in server.records if record["message"] not in REFUSALS]
        assert messages == ["listening", "serving", "stopping", "stopped"]


@pytest.mark.parametrize("raw", [b"\xff\xff", TRUNCATED, b"\x00"])
@pytest.mark.parametrize("path", PATHS)
def test_bytes_that_are_no_message_are_refused(quiet: ServerProcess, path: str, raw: bytes):
    with Connection(quiet.address) as connection:
        end = connection.call(path, raw)
    assert end.status == INVALID_ARGUMENT
    assert end.message.startswith("the message is not a grpc.")


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_text_that_is_not_utf8_is_refused(quiet: ServerProcess, path: str):
    with Connection(quiet.address) as connection:
        raw = b"\x1a\x02\xff\xfe" if path == REFLECTION else BAD_UTF8
        assert connection.call(path, raw).status == INVALID_ARGUMENT


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, f"{SERVICE_PATH}StaticReshape"])
def test_a_call_without_a_message_is_refused(quiet: ServerProcess, path: str):
    with Connection(quiet.address) as connection:
        end = connection.await_end(connection.open(path, end=True))
    assert end == (INVALID_ARGUMENT, "the call has no message")


def test_a_reflection_stream_without_a_message_ends_well(quiet: ServerProcess):
    with Connection(quiet.address) as connection:
        assert connection.await_end(connection.open(REFLECTION, end=True)).status == OK


def test_a_name_that_nobody_has_is_not_found(quiet: ServerProcess):
    with Connection(quiet.address) as connection:
        assert connection.call(HEALTH_CHECK, LONG_NAME) == (NOT_FOUND, "unknown service")


def test_who_watches_a_name_that_nobody_has_is_told_so(quiet: ServerProcess):
    with Connection(quiet.address) as connection:
        stream = connection.open(HEALTH_WATCH)
        connection.send_data(stream, grpc_message(LONG_NAME), end=True)
        assert connection.await_(lambda: connection.bodies.get(stream) == grpc_message(b"\x08\x03"))


@pytest.mark.parametrize("path", PATHS)
def test_a_message_that_is_much_too_long_is_not_read(quiet: ServerProcess, path: str):
    with Connection(quiet.address) as connection:
        assert connection.call(path, TOO_LONG_NAME).status == RESOURCE_EXHAUSTED


@pytest.mark.parametrize("path", PATHS)
def test_a_compression_that_does_not_exist_harms_nobody(quiet: ServerProcess, path: str):
    with Connection(quiet.address) as connection:
        stream = connection.open(path)
        connection.send_data(stream, grpc_message(b"", compressed=1), end=True)
        assert connection.await_end(stream).status not in {OK, "TIMEOUT"}
    with Connection(quiet.address) as connection:
        assert connection.call(HEALTH_CHECK, b"").is_ok


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_a_server_that_was_sent_garbage_still_ends(serving: str, path: str):
    with run_server("--serving", serving) as server:
        with Connection(server.address) as connection:
            for _ in range(5):  # one more than reflection has threads
                assert connection.call(path, b"\xff\xff").status != "0"
        assert server.stop() == 0
