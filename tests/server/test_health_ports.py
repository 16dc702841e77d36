"""The port for health alone: what it serves, what it does not, and that it does not speak for a server that hangs."""

from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from http2 import HEALTH_CHECK, REFLECTION, SERVICE_PATH, Connection
from in_process import ANY_PORT, BlockedBackend, run_runner
from plain_requests import INFER, STATIC_RESHAPE, build_static_request
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.fair_locks import FairLock
from tensor_reshape.server.health_ports import SILENT_SECONDS, HealthPort
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.methods import SERVICE

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
RESOURCE_EXHAUSTED, UNIMPLEMENTED = "8", "12"
SECONDS = 60.0


CONFIG = Config(listen=(ANY_PORT,), health_listen=ANY_PORT, drain_seconds=0, shutdown_grace_seconds=0)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with run_runner(CONFIG) as runner:
        yield runner


@pytest.fixture
def connection(runner: Runner) -> Iterator[Connection]:
    assert runner.health_address
    with Connection(runner.health_address) as connection:
        yield connection


@pytest.fixture
def port() -> Iterator[HealthPort]:
    """A port whose service is the test."""
    port = HealthPort(CONFIG, ANY_PORT, 16, shares=False)
    port.start()
    try:
        yield port
    finally:
        port.end()


def check(port: HealthPort) -> int:
    with grpc.insecure_channel(port.address) as channel:
        response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    return int(response.status)


@pytest.mark.parametrize("service", ["", SERVICE])
def test_it_says_that_the_server_serves(connection: Connection, service: str):
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    assert connection.call(HEALTH_CHECK, request).is_ok


@pytest.mark.parametrize("path", [f"{SERVICE_PATH}InferShape", REFLECTION, *build_probes(bool), "/a.B/C"])
def test_nothing_but_health_is_served(connection: Connection, path: str):
    assert connection.call(path, INFER).status == UNIMPLEMENTED


def test_a_message_is_small(connection: Connection):
    assert connection.call(HEALTH_CHECK, bytes(MAX_HEADER_BYTES + 1)).status == RESOURCE_EXHAUSTED


def test_it_says_that_a_server_does_not_serve_whose_thread_is_held_up():
    backend = BlockedBackend()
    service = ReshapeService(CONFIG.limits, backend=backend, make_turns=FairLock)
    with ExitStack() as stack:
        runner = stack.enter_context(run_runner(CONFIG, service=service))
        stack.callback(backend.released.set)
        channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
        port = stack.enter_context(grpc.insecure_channel(runner.health_address or ""))
        watch = health_pb2_grpc.HealthStub(port).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == SERVING
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATIC_RESHAPE)
        held = call.future(build_static_request(), timeout=SECONDS)  # small: answered on that very thread
        assert next(watch).status == NOT_SERVING
        backend.released.set()
        assert next(watch).status == SERVING
        assert held.result()
        watch.cancel()


def test_it_serves_until_the_first_turn(port: HealthPort):
    port.look(SILENT_SECONDS, 0)
    assert check(port) == SERVING


def test_it_does_not_serve_while_no_turn_is_made(port: HealthPort):
    port.look(0.0, 1)
    port.look(SILENT_SECONDS, 1)
    assert check(port) == NOT_SERVING


def test_it_serves_where_turns_are_not_known(port: HealthPort):
    port.look(0.0, None)
    port.look(SILENT_SECONDS, None)
    assert check(port) == SERVING


def test_it_serves_again_when_turns_are_made(port: HealthPort):
    port.look(0.0, 1)
    port.look(SILENT_SECONDS, 1)
    port.look(SILENT_SECONDS, 2)
    assert check(port) == SERVING


def test_those_who_watch_are_told_of_both(port: HealthPort):
    with grpc.insecure_channel(port.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == SERVING
        port.look(0.0, 1)
        port.look(SILENT_SECONDS, 1)
        assert next(watch).status == NOT_SERVING
        port.look(SILENT_SECONDS, 2)
        assert next(watch).status == SERVING


def test_turns_do_not_make_a_server_serve_that_stops(port: HealthPort):
    port.stop_serving()
    port.look(0.0, 1)
    assert check(port) == NOT_SERVING


def test_a_server_that_stops_meanwhile_does_not_serve(port: HealthPort, monkeypatch: pytest.MonkeyPatch):
    port.look(0.0, 1)
    port.look(SILENT_SECONDS, 1)
    resume = port._health.resume_serving

    def stop_and_resume() -> None:
        port.stop_serving()
        resume()

    monkeypatch.setattr(port._health, "resume_serving", stop_and_resume)
    port.look(SILENT_SECONDS, 2)
    assert check(port) == NOT_SERVING
