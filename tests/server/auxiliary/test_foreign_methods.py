"""Health and reflection answer truly whatever comes, however grpcio lets them be served."""

from collections.abc import Iterator

import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, End, grpc_message
from in_process import ANY_PORT, run_runner
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.calls import core_calls
from tensor_reshape.server.config import Config
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import SERVICE

HEALTH_LIST = "/grpc.health.v1.Health/List"
# The oldest of the health package that is admitted has no List, and then no server has.
LISTS = (HEALTH_LIST,) if hasattr(health_pb2, "HealthListRequest") else ()
METHODS = (HEALTH_CHECK, *LISTS, HEALTH_WATCH, REFLECTION)
OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED = "0", "3", "5", "8"
GARBAGE = {"not protobuf": b"\xff\xff", "cut short": b"\x0a\x05a", "a name that is no text": b"\x0a\x01\xff"}


@pytest.fixture(scope="module", params=["inline", "threads", "unknown grpcio"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "unknown grpcio":
            patch.setattr(core_calls, "is_supported", lambda: False)
        serving = "inline" if request.param == "inline" else "threads"
        with run_runner(Config(listen=(ANY_PORT,), serving=serving, drain_seconds=0, grace_seconds=0)) as runner:
            yield runner


@pytest.fixture
def connection(runner: Runner) -> Iterator[Connection]:
    with Connection(runner.addresses[0]) as connection:
        yield connection


def ask(connection: Connection, path: str, message: bytes) -> tuple[End, bytes]:
    """Makes a call with one message, and returns its end and what came before that."""
    stream = connection.open(path)
    connection.send_data(stream, grpc_message(message), end=True)
    return connection.await_end(stream), connection.bodies.get(stream, b"")


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_garbage_is_refused_as_what_it_is(connection: Connection, path: str, garbage: bytes):
    end, body = ask(connection, path, garbage)
    assert (end.status, body) == (INVALID_ARGUMENT, b"")
    assert "secret" not in end.message


@pytest.mark.parametrize("path", [HEALTH_CHECK, *LISTS, HEALTH_WATCH, *build_probes(bool)])
def test_a_call_without_a_message_is_refused(connection: Connection, path: str):
    assert connection.await_end(connection.open(path, end=True)).status == INVALID_ARGUMENT


def test_a_reflection_stream_without_a_message_ends_well(connection: Connection):
    assert connection.await_end(connection.open(REFLECTION, end=True)).status == OK


@pytest.mark.parametrize("path", METHODS)
def test_a_message_that_is_too_large_is_refused(connection: Connection, path: str):
    end, body = ask(connection, path, b"\x0a" + b"\x81\x80\x04" + bytes(MAX_HEADER_BYTES + 1))
    assert (end.status, body) == (RESOURCE_EXHAUSTED, b"")


def test_a_service_that_is_not_here_is_not_found(connection: Connection):
    request = health_pb2.HealthCheckRequest(service="another").SerializeToString()
    assert ask(connection, HEALTH_CHECK, request)[0].status == NOT_FOUND


@pytest.mark.parametrize("service", ["", SERVICE])
def test_what_is_here_serves(connection: Connection, service: str):
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    end, body = ask(connection, HEALTH_CHECK, request)
    assert (end.status, body) == (OK, grpc_message(b"\x08\x01"))


def test_each_message_of_a_reflection_stream_has_its_answer(connection: Connection):
    request = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    stream = connection.open(REFLECTION)
    connection.send_data(stream, grpc_message(request) * 3, end=True)
    assert connection.await_end(stream).status == OK
    body, answers = connection.bodies[stream], 0
    while body:
        size = int.from_bytes(body[1:5], "big")
        response = reflection_pb2.ServerReflectionResponse.FromString(body[5 : 5 + size])
        assert SERVICE in [service.name for service in response.list_services_response.service]
        body, answers = body[5 + size :], answers + 1
    assert answers == 3
