"""The health responses of the server: of the service without a socket, and of the port for health checks."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, SERVICE_PATH, Connection, grpc_message
from in_process import ANY_PORT, BlockedBackend, run_runner
from plain_requests import INFER, STATIC_RESHAPE, build_static_request
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.config import Config
from tensor_reshape.server.grpc.health import (
    HEALTH_SERVICE,
    SILENT_SECONDS,
    Health,
    HealthPort,
    HealthWatch,
)
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.process.listeners import hold
from tensor_reshape.server.process.pools import FairLock
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.methods import SERVICE

SOURCE = find_source("ipv4:127.0.0.1:1")
SERVING, NOT_SERVING, UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"
RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE = "8", "12", "14"
SECONDS = 60.0


CONFIG = Config(listen=(ANY_PORT,), health_listen=ANY_PORT, drain_seconds=0, shutdown_grace_seconds=0)


def build_request(service: str = "") -> bytes:
    return bytes(health_pb2.HealthCheckRequest(service=service).SerializeToString())


def open_watch(health: Health, request: bytes = b"", notify: Callable[[], None] = lambda: None) -> HealthWatch:
    return health.open_watch(request, notify, SOURCE)


@pytest.mark.parametrize("service", ["", SERVICE])
def test_health_status_is_serving_until_the_server_stops(service: str):
    health = Health()
    assert health.check(build_request(service)) == SERVING
    health.stop_serving()
    assert health.check(build_request(service)) == NOT_SERVING


def test_health_list_has_the_status_of_the_server_and_of_its_service():
    # The oldest allowed grpcio-health-checking has no class for this message.
    read = GetMessageClass(HEALTH_SERVICE.file.message_types_by_name["HealthListResponse"]).FromString
    health = Health()
    for status in (HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING):
        listed: Any = read(health.list(b""))
        assert {name: one.status for name, one in listed.statuses.items()} == {"": status, SERVICE: status}
        health.stop_serving()


def test_health_definition_contains_that_of_grpcio_health_checking():
    own, published = FileDescriptorProto(), FileDescriptorProto()
    HEALTH_SERVICE.file.CopyToProto(own)
    health_pb2.DESCRIPTOR.CopyToProto(published)
    assert (own.package, own.name) == (published.package, "grpc/health/v1/health.proto")
    # Older releases of the package have no List, and generated modules have no JSON names.
    messages = {re.sub(' *json_name: ".*"\n', "", str(message)) for message in own.message_type}
    assert set(map(str, published.message_type)) <= messages
    assert [method for method in published.service[0].method if method not in own.service[0].method] == []


@pytest.mark.parametrize("respond", [Health.check, Health.list, open_watch], ids=["check", "list", "watch"])
def test_malformed_health_check_message_is_rejected(respond: Callable[[Health, bytes], object]):
    with pytest.raises(ReshapeError):
        respond(Health(), b"\xff")


def test_health_watch_sends_each_status_once():
    health = Health()
    watch = open_watch(health)
    assert (watch.find_update(), watch.find_update()) == (SERVING, None)
    health.stop_serving()
    assert (watch.find_update(), watch.find_update(), watch.is_over) == (NOT_SERVING, None, False)
    health.end_watches()
    assert (watch.find_update(), watch.is_over) == (None, True)


def test_health_watch_of_an_unknown_service_sends_service_unknown():
    assert open_watch(Health(), build_request("another")).find_update() == UNKNOWN


def test_only_open_health_watches_are_notified():
    health, looks = Health(), Counter[str]()
    for name in ("stays", "leaves"):
        watch = open_watch(health, notify=partial(looks.update, [name]))
    watch.close()
    health.stop_serving()
    health.end_watches()
    assert looks == {"stays": 2}


def fill(health: Health, connections: Iterable[str]) -> list[HealthWatch]:
    """Opens as many watches of the connections as the service accepts."""
    watches: list[HealthWatch] = []
    for connection in connections:
        with suppress(LimitError):
            while True:
                watches.append(health.open_watch(b"", lambda: None, find_source(connection)))
    return watches


def test_connection_has_at_most_16_health_watches():
    health = Health()
    watches = fill(health, ["ipv4:10.0.0.1:1"])
    assert len(watches) == 16
    watches[0].close()
    assert len(fill(health, ["ipv4:10.0.0.1:1"])) == 1
    with pytest.raises(LimitError) as caught:
        health.open_watch(b"", lambda: None, find_source("ipv4:10.0.0.1:1"))
    assert caught.value.reason == Reason.SERVER_BUSY


def test_server_has_at_most_4096_health_watches():
    health = Health()
    assert len(fill(health, (f"ipv4:10.0.0.1:{port}" for port in range(224)))) == 3584
    # The last eighth is for addresses with few watches, and for the first watch of a connection.
    assert len(fill(health, ["ipv4:10.0.0.1:224"])) == 1
    assert len(fill(health, (f"ipv4:10.0.1.{host}:1" for host in range(200)))) == 511


def fails() -> None:
    message = "a secret"
    raise RuntimeError(message)


def test_failing_health_watch_does_not_stop_other_notifications(caplog: pytest.LogCaptureFixture):
    health, looks = Health(), Counter[str]()
    for look in (fails, partial(looks.update, ["looks"])):
        open_watch(health, notify=look)
    health.stop_serving()
    assert (looks["looks"], [record.message for record in caplog.records]) == (1, ["bug"])


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
    assert connection.call(HEALTH_CHECK, build_request(service)).is_ok


@pytest.mark.parametrize("path", [f"{SERVICE_PATH}InferShape", REFLECTION, *build_probes(bool), "/a.B/C"])
def test_health_port_serves_only_health_methods(connection: Connection, path: str):
    assert connection.call(path, INFER).status == UNIMPLEMENTED


def test_health_port_rejects_large_messages(connection: Connection):
    end = connection.call(HEALTH_CHECK, bytes(MAX_HEADER_BYTES + 1))
    assert end.status == RESOURCE_EXHAUSTED
    assert f"{MAX_HEADER_BYTES + 1} vs. {MAX_HEADER_BYTES}" in end.message  # gRPC's core rejects it


def test_health_port_reports_not_serving_if_the_server_is_blocked():
    backend = BlockedBackend()
    service = ReshapeService(CONFIG.limits, backend=backend, make_turns=FairLock)
    with ExitStack() as stack:
        runner = stack.enter_context(run_runner(CONFIG, service=service))
        stack.callback(backend.released.set)
        channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
        port = stack.enter_context(grpc.insecure_channel(runner.health_address or ""))
        watch = health_pb2_grpc.HealthStub(port).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == HealthCheckResponse.SERVING
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATIC_RESHAPE)
        held = call.future(build_static_request(), timeout=SECONDS)  # small, so the receiving thread processes the call
        assert next(watch).status == HealthCheckResponse.NOT_SERVING
        backend.released.set()
        assert next(watch).status == HealthCheckResponse.SERVING
        assert held.result()
        watch.cancel()


BEGINS, CEASES, RESUMES = (0.0, 1), (SILENT_SECONDS, 1), (SILENT_SECONDS, 2)  # heartbeats


@pytest.mark.parametrize(
    ("heartbeats", "status"),
    [
        ([(SILENT_SECONDS, 0)], HealthCheckResponse.SERVING),
        ([BEGINS, CEASES], HealthCheckResponse.NOT_SERVING),
        ([BEGINS, CEASES, RESUMES], HealthCheckResponse.SERVING),
    ],
    ids=["before the first", "missing", "again"],
)
def test_health_port_reports_serving_unless_heartbeats_cease(
    port: HealthPort, heartbeats: list[tuple[float, int]], status: int
):
    for heartbeat in heartbeats:
        port.update(*heartbeat)
    assert check(port) == status


def test_health_port_watch_receives_each_status_change(port: HealthPort):
    with grpc.insecure_channel(port.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == HealthCheckResponse.SERVING
        port.update(*BEGINS)
        port.update(*CEASES)
        assert next(watch).status == HealthCheckResponse.NOT_SERVING
        port.update(*RESUMES)
        assert next(watch).status == HealthCheckResponse.SERVING


def test_health_watch_is_notified_of_each_change_once(port: HealthPort):
    statuses: list[bytes] = []
    open_watch(port._health, notify=lambda: statuses.append(port._health.check(b"")))
    for heartbeat in (BEGINS, BEGINS, CEASES, CEASES, RESUMES, RESUMES):
        port.update(*heartbeat)
    assert statuses == [NOT_SERVING, SERVING]
    port.stop_serving()
    port.update(*RESUMES)
    port.update(SILENT_SECONDS, 3)
    assert statuses == [NOT_SERVING, SERVING, NOT_SERVING]


def test_health_port_ends_all_calls_and_its_listener():
    port = HealthPort(CONFIG, ANY_PORT, 16, shares=False)
    port.start()
    with Connection(port.address) as connection, Connection(port.address, initial_window=0) as deaf:
        silent, unread = connection.open(HEALTH_CHECK), deaf.open(HEALTH_WATCH)
        watched = [connection.open(HEALTH_WATCH) for _ in range(8)]
        for one, stream in (*((connection, stream) for stream in watched), (deaf, unread)):
            one.send_data(stream, grpc_message(b""))
        assert deaf.ping()
        assert connection.await_(lambda: connection.bodies.keys() >= set(watched))
        port.end()
        assert port.service.engine.is_idle
        assert all(connection.await_end(stream).is_ok for stream in watched)
        assert connection.await_end(silent) == (UNAVAILABLE, "the server stops")
        assert not deaf.await_end(unread).is_ok
    with pytest.raises(ConnectionRefusedError):
        Connection(port.address)


def test_health_ports_of_several_workers_share_an_address():
    with hold(ANY_PORT) as address:
        ports = [HealthPort(CONFIG, address, 16, shares=True) for _ in range(2)]
        for port in ports:
            port.start()
        assert [port.address for port in ports] == [address] * 2
        assert check(ports[0]) == HealthCheckResponse.SERVING
        for port in ports:
            port.end()


def test_stopping_server_stays_not_serving_despite_heartbeats(port: HealthPort):
    port.stop_serving()
    port.update(*BEGINS)
    assert check(port) == HealthCheckResponse.NOT_SERVING


def test_health_port_is_not_serving_if_stopped_during_an_update(port: HealthPort, monkeypatch: pytest.MonkeyPatch):
    port.update(*BEGINS)
    port.update(*CEASES)
    resume = port._health.resume_serving

    def stop_and_resume() -> None:
        port.stop_serving()
        resume()

    monkeypatch.setattr(port._health, "resume_serving", stop_and_resume)
    port.update(*RESUMES)
    assert check(port) == HealthCheckResponse.NOT_SERVING
