"""The port for health checks."""

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
from tensor_reshape.server.grpc.health import SILENT_SECONDS, HealthPort
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.process.pools import FairLock
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
    """A port with a health service of the test."""
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
def test_health_port_reports_serving(connection: Connection, service: str):
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    assert connection.call(HEALTH_CHECK, request).is_ok


@pytest.mark.parametrize("path", [f"{SERVICE_PATH}InferShape", REFLECTION, *build_probes(bool), "/a.B/C"])
def test_health_port_serves_only_health_methods(connection: Connection, path: str):
    assert connection.call(path, INFER).status == UNIMPLEMENTED


def test_health_port_rejects_large_messages(connection: Connection):
    assert connection.call(HEALTH_CHECK, bytes(MAX_HEADER_BYTES + 1)).status == RESOURCE_EXHAUSTED


def test_health_port_reports_not_serving_if_the_server_is_blocked():
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
        held = call.future(build_static_request(), timeout=SECONDS)  # small, so the receiving thread processes the call
        assert next(watch).status == NOT_SERVING
        backend.released.set()
        assert next(watch).status == SERVING
        assert held.result()
        watch.cancel()


def test_health_port_reports_serving_before_the_first_heartbeat(port: HealthPort):
    port.update(SILENT_SECONDS, 0)
    assert check(port) == SERVING


def test_health_port_reports_not_serving_without_heartbeats(port: HealthPort):
    port.update(0.0, 1)
    port.update(SILENT_SECONDS, 1)
    assert check(port) == NOT_SERVING


def test_health_port_reports_serving_after_new_heartbeats(port: HealthPort):
    port.update(0.0, 1)
    port.update(SILENT_SECONDS, 1)
    port.update(SILENT_SECONDS, 2)
    assert check(port) == SERVING


def test_health_port_watch_receives_each_status_change(port: HealthPort):
    with grpc.insecure_channel(port.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == SERVING
        port.update(0.0, 1)
        port.update(SILENT_SECONDS, 1)
        assert next(watch).status == NOT_SERVING
        port.update(SILENT_SECONDS, 2)
        assert next(watch).status == SERVING


def test_stopping_server_stays_not_serving_despite_heartbeats(port: HealthPort):
    port.stop_serving()
    port.update(0.0, 1)
    assert check(port) == NOT_SERVING


def test_health_port_is_not_serving_if_stopped_during_an_update(port: HealthPort, monkeypatch: pytest.MonkeyPatch):
    port.update(0.0, 1)
    port.update(SILENT_SECONDS, 1)
    resume = port._health.resume_serving

    def stop_and_resume() -> None:
        port.stop_serving()
        resume()

    monkeypatch.setattr(port._health, "resume_serving", stop_and_resume)
    port.update(SILENT_SECONDS, 2)
    assert check(port) == NOT_SERVING
