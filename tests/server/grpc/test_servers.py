"""The thread that receives calls: fair turns, unknown methods, shutdown, and the test call to itself."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Self

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from certificates import issue_certificates
from grpc_servers import ANY_PORT, METHOD, SECONDS, CoreServer, ManualCall, run_core
from http2 import Connection
from tensor_reshape.runtime import experiments
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.engine.fair_queues import AdmissionQueue
from tensor_reshape.server.grpc import servers
from tensor_reshape.server.grpc.calls import CoreCall, NewCall
from tensor_reshape.server.grpc.servers import MAX_QUEUED_CALLS, NAMES, QUEUE_AFTER, Server, check_core
from tensor_reshape.server.process.engines import NEXT_RELEASE, TESTED
from tensor_reshape.server.telemetry import call_logs
from waits import await_that

ROOT = Path(__file__).parents[3]
CROWD = 40
CANCELLED, RESOURCE_EXHAUSTED, UNIMPLEMENTED = {"1", "RST"}, "8", "12"
ADVICE = f". Run pip install --force-reinstall '{TESTED}'"


class HeldServer:
    """Blocks the thread of a server while it begins its first call, and records the order of the calls."""

    def __init__(self, served: CoreServer) -> None:
        self.begun: list[str] = []
        self.held, self.released = threading.Event(), threading.Event()
        served.make = self.make

    def make(self, new: NewCall) -> CoreCall:
        self.begun.append(str(dict(new.metadata)["name"]))
        self.held.set()
        assert self.released.wait(SECONDS)
        call = ManualCall(METHOD, new)
        call.finish()
        return call


def crowd(connection: Connection, address: str, name: str, count: int) -> None:
    """Begins calls, and waits until the server has received them."""
    for _ in range(count):
        connection.open(METHOD, end=True, headers=[("address", address), ("name", name)])
    assert connection.ping()
    assert connection.ping()  # the core reports earlier frames before it reads more


@pytest.mark.parametrize(("addresses", "turn"), [("aab", QUEUE_AFTER + 4), ("aaa", QUEUE_AFTER + 5)])
def test_core_server_accepts_queued_calls_of_addresses_in_turn(addresses: str, turn: int):
    with run_core(options=[("grpc.http2.max_ping_strikes", 0)]) as served:
        held = HeldServer(served)
        with Connection(served.address) as one, Connection(served.address) as two, Connection(served.address) as three:
            crowd(one, addresses[0], "one", 1)
            assert held.held.wait(SECONDS)
            crowd(one, addresses[0], "one", CROWD)
            crowd(two, addresses[1], "two", CROWD)
            crowd(three, addresses[2], "three", 1)
            held.released.set()
            assert three.await_end(1).is_ok
            assert one.await_end(2 * CROWD + 1).is_ok
            assert two.await_end(2 * CROWD - 1).is_ok
    order = held.begun[QUEUE_AFTER:]
    assert sorted(held.begun) == sorted(["one"] * (CROWD + 1) + ["two"] * CROWD + ["three"])
    assert held.begun.index("three") < turn
    order.remove("three")
    assert order[: CROWD // 2 * 2].count("two") >= CROWD // 2 - QUEUE_AFTER


class FullServer(CoreServer):
    """A server without room for the calls of some addresses."""

    def __init__(self, *addresses: str, wait_seconds: float = SECONDS) -> None:
        super().__init__(ManualCall)
        self.addresses = set(addresses)
        queue = AdmissionQueue[NewCall](lambda source: source.address not in self.addresses, wait_seconds)
        self.service.queue = queue
        self.server._queues.append(queue)

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        assert self.server.wait(SECONDS)


def begin(connection: Connection, address: str, name: str) -> int:
    return connection.open(METHOD, end=True, headers=[("address", address), ("name", name)])


def test_call_of_a_client_without_room_begins_when_there_is_room():
    with FullServer("a") as served, Connection(served.address) as connection:
        waiting = begin(connection, "a", "waiting")
        stream = begin(connection, "b", "other")
        served.calls.get(timeout=SECONDS).finish()
        assert connection.await_end(stream).is_ok
        assert served.calls.empty()
        served.addresses.clear()
        served.calls.get(timeout=SECONDS).finish()
        assert connection.await_end(waiting).is_ok


def test_call_is_refused_after_waiting_too_long(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    call_logs._REFUSED_AT.clear()
    with FullServer("a", wait_seconds=0.1) as served, Connection(served.address) as connection:
        status, message = connection.await_end(begin(connection, "a", "late"))
        assert (status, "too%20many%20calls%20wait" in message.replace(" ", "%20")) == (RESOURCE_EXHAUSTED, True)
        assert served.calls.empty()
    assert [record.message for record in caplog.records] == ["refused"]


def test_call_is_refused_in_time_although_other_calls_are_busy():
    with FullServer("a", wait_seconds=0.1) as served, Connection(served.address) as connection:
        begin(connection, "b", "busy")
        busy = served.calls.get(timeout=SECONDS)
        assert isinstance(busy, ManualCall)
        late = begin(connection, "a", "late")
        deadline = time.monotonic() + SECONDS
        while not connection.is_over(late) and time.monotonic() < deadline:  # the thread always has a next event
            busy.send_now(b"x")
            busy.sizes.get(timeout=SECONDS)
        assert connection.await_end(late).status == RESOURCE_EXHAUSTED
        busy.finish()


@pytest.mark.parametrize("page", ["docs/architecture/admission-control.md", "docs/deployment/sizing.md"])
def test_page_names_the_number_of_calls_that_may_wait_to_begin(page: str):
    assert f"{MAX_QUEUED_CALLS:,}" in (ROOT / page).read_text()


def test_longest_queue_loses_its_newest_call_above_the_maximum(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "MAX_QUEUED_CALLS", 3)
    with FullServer("a", "b") as served, Connection(served.address) as connection:
        streams = [begin(connection, "a", name) for name in ("first", "second", "third")]
        streams.append(begin(connection, "b", "other"))
        assert connection.await_end(streams.pop(2)).status == RESOURCE_EXHAUSTED
        served.addresses.clear()
        for _ in streams:
            served.calls.get(timeout=SECONDS).finish()
        assert all(connection.await_end(stream).is_ok for stream in streams)


def test_stopping_core_server_finishes_accepted_calls():
    with run_core() as served, Connection(served.address) as connection:
        held = HeldServer(served)
        crowd(connection, "a", "one", 1)
        assert held.held.wait(SECONDS)
        crowd(connection, "a", "one", CROWD)
        served.server.stop()
        held.released.set()
        assert served.server.wait(SECONDS)
    assert len(held.begun) == CROWD + 1


class UnbegunCall(ManualCall):
    """A call that fails at its beginning, when the core receives a message for it."""

    def begin(self) -> None:
        self.receive()
        message = "a secret"
        raise ValueError(message)


def fail_to_make(_: str, new: NewCall) -> CoreCall:
    raise MemoryError(new)


@pytest.mark.parametrize("kind", [UnbegunCall, fail_to_make])
def test_exception_while_starting_a_call_affects_no_other_call(
    kind: Callable[[str, NewCall], CoreCall], caplog: pytest.LogCaptureFixture
):
    with run_core(kind) as served, Connection(served.address) as connection:
        assert connection.await_end(connection.open(METHOD)).status in CANCELLED
        assert connection.await_end(connection.open("/no/Such")).status == UNIMPLEMENTED
    assert [record.message for record in caplog.records] == ["bug"]


def test_receiving_thread_keeps_its_heartbeat_without_calls():
    began = time.monotonic()
    with run_core() as served:
        assert not served.server.wait(1.5)  # the thread makes one turn a second
        assert 0 < served.server.turns <= time.monotonic() - began + 2


def test_receiving_thread_has_a_name_and_does_not_keep_the_process():
    with run_core():
        assert {thread.daemon for thread in threading.enumerate() if thread.name == "serve"} == {True}


def test_idle_core_server_stops_immediately_and_frees_its_port():
    with run_core() as served:
        served.server.stop()
        assert served.server.wait(SECONDS)
        served.server.stop()
        served.server.cancel_calls()
        with socket.create_server(("127.0.0.1", int(served.address.rpartition(":")[2]))):
            assert not served.server.has_stopped_receiving


def test_unstarted_core_server_stops_and_frees_its_port():
    served = CoreServer(ManualCall)
    served.server.stop()
    assert served.server.wait(SECONDS)
    with socket.create_server(("127.0.0.1", int(served.address.rpartition(":")[2]))):
        assert not served.server.has_stopped_receiving


def test_stopping_core_server_rejects_new_calls_and_awaits_running_calls():
    with run_core() as served, Connection(served.address) as connection:
        stream = connection.open(METHOD)
        call = served.calls.get(timeout=SECONDS)
        served.server.stop()
        assert not served.server.wait(0.1)
        assert connection.await_(lambda: bool(connection.goaway))
        with pytest.raises(ConnectionRefusedError):
            Connection(served.address)
        call.finish(response=b"answer")
        assert connection.await_end(stream).is_ok
        assert served.server.wait(SECONDS)
    assert len(served.begun) == 1


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "no.such.host.invalid:0", "unix:/no/such/directory/socket"])
def test_core_server_raises_runtime_error_for_an_unbindable_address(address: str):
    with run_core(options=[("grpc.so_reuseport", 0)]) as served:
        taken = served.address.rpartition(":")[2]
        with pytest.raises(RuntimeError, match="cannot be bound"):
            served.server.add_port(address.format(port=taken), None)


def test_core_server_receives_calls_over_tls(tmp_path: Path):
    files = issue_certificates(tmp_path)
    server = grpc.ssl_server_credentials(
        [(files.server_key.read_bytes(), files.server.read_bytes())], files.authority.read_bytes(), True
    )
    served = CoreServer(ManualCall)
    port = served.server.add_port(ANY_PORT, server)
    served.server.start()
    with grpc.secure_channel(f"127.0.0.1:{port}", files.identity) as channel:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        answer = ask.future(b"", timeout=SECONDS)
        call = served.calls.get(timeout=SECONDS)
        assert b"client@example.org" in call.info.read_tls()["x509_subject_alternative_name"]
        call.finish(response=b"answer")
        assert answer.result() == b"answer"
    served.server.stop()
    assert served.server.wait(SECONDS)


def test_failure_to_read_a_call_address_delays_no_other_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with run_core() as served, Connection(served.address) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(servers, "NewCall", fail_to_make_a_call)
            assert not connection.await_end(connection.open(METHOD)).is_ok
        stream = connection.open(METHOD, end=True)
        served.calls.get(timeout=SECONDS).finish()
        assert connection.await_end(stream).is_ok
    assert [record.message for record in caplog.records] == ["bug"]


def fail_to_make_a_call(*_: object) -> None:
    raise ValueError


def test_core_server_reports_the_end_of_its_receiving_thread(monkeypatch: pytest.MonkeyPatch):
    ended = SimpleQueue[threading.Thread]()
    monkeypatch.setattr(threading, "excepthook", lambda failure: ended.put(failure.thread))

    def fail(_new: NewCall) -> CoreCall:
        raise KeyboardInterrupt  # an Exception would affect only that call

    served = CoreServer(ManualCall)
    served.make = fail
    served.server.start()
    with Connection(served.address) as connection:
        connection.open(METHOD)
        ended.get(timeout=SECONDS).join()
    assert served.server.has_stopped_receiving
    served.server.stop()


def reject() -> str:
    """Returns the fault that the check finds."""
    check_core.cache_clear()
    with pytest.raises(ConfigError) as caught:
        check_core()
    return str(caught.value).removeprefix(f"cannot serve with grpcio {grpc.__version__}: ")


def test_test_call_of_the_installed_grpcio_runs_only_once(monkeypatch: pytest.MonkeyPatch):
    check_core.cache_clear()
    before = set(threading.enumerate())
    check_core()
    await_that(lambda: before.issuperset(threading.enumerate()))  # its server has stopped
    monkeypatch.delattr(cygrpc, "Server")
    check_core()


def test_release_of_grpcio_that_is_not_tested_is_rejected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(experiments, "find_release", lambda: NEXT_RELEASE)
    assert reject().startswith(f"grpcio {grpc.__version__} was not tested with this server")


@pytest.mark.parametrize("name", NAMES)
def test_missing_name_in_the_grpcio_binding_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(cygrpc, name)
    assert reject() == f"it has no cygrpc.{name}{ADVICE}"


def test_exception_in_the_test_call_is_rejected_without_its_text(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> int:
        message = "a secret"
        raise OSError(message)

    monkeypatch.setattr(Server, "add_port", fail)
    assert reject() == f"a test call of the server to itself failed: OSError{ADVICE}"


def test_test_call_without_a_response_is_rejected_with_its_status(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "_SECONDS", 0.1)
    monkeypatch.setattr(CoreCall, "finish", lambda *_: None)
    assert reject() == f"a test call of the server to itself failed: DEADLINE_EXCEEDED{ADVICE}"


def test_test_call_with_a_wrong_response_is_rejected(monkeypatch: pytest.MonkeyPatch):
    finish = CoreCall.finish
    monkeypatch.setattr(CoreCall, "finish", lambda call, status, _: finish(call, status, b"another"))
    assert reject() == f"a test call had a wrong response or did not end{ADVICE}"
