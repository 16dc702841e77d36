"""Gates: the calls that reach each gate, its information about them, the identities of their callers, and quotas."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import grpc
import pytest

from certificates import Certificates, issue_certificates
from engine_calls import Clock, name_peer
from grpc_servers import Watcher
from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION
from in_process import GOOD, LONG, RESHAPE, STREAM, WAIT_SECONDS, RecordingGate, serve
from plain_requests import SIX, begin, chunk
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls import gates
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import CallerQuotas, Gate, Gates, build_quotas, find_caller
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import Event
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.status import REQUEST_ID_KEY

PROBE = next(iter(build_probes(bool)))
TRAILING = ("added", "at the end")
REJECTED = LimitError.of(Reason.SERVER_BUSY, "not you")
ONE, OTHER = "ipv4:192.0.2.1:1000", "ipv4:192.0.2.2:1000"


class Book:
    """A gate that records admitted and ended calls, and rejects calls whose metadata requests it."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.admitted: list[CallInfo] = []
        self.left: list[CallInfo] = []

    def admit(self, info: CallInfo) -> None:
        if info.find_values("reject"):
            raise REJECTED
        if info.find_values("bug"):
            message = "a secret"
            raise RuntimeError(message)
        info.identity = str(*info.find_values("name"))
        info.trailing = (TRAILING,)
        with self.news:
            self.admitted.append(info)

    def leave(self, info: CallInfo) -> None:
        with self.news:
            self.left.append(info)
            self.news.notify_all()

    def await_empty(self) -> None:
        """Waits until all admitted calls have ended."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.left) >= len(self.admitted), WAIT_SECONDS)
        assert len(self.left) == len(self.admitted)


@dataclass
class Guarded:
    """A server with a gate and a journal."""

    runner: Runner
    book: Book
    watcher: Watcher

    @property
    def address(self) -> str:
        return self.runner.addresses[0]


@contextmanager
def guard(*others: Gate, **settings: Any) -> Iterator[Guarded]:
    book, watcher = Book(), Watcher()
    with serve(journals=[watcher], gates=[book, *others], **settings) as runner:
        yield Guarded(runner, book, watcher)


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guard() as guarded:
        yield guarded


@pytest.fixture
def channel(guarded: Guarded) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(guarded.address) as channel:
        yield channel


MESSAGES = {RESHAPE: [GOOD], STREAM: [begin(), chunk(0, SIX)]}


def call(
    channel: grpc.Channel, path: str, metadata: Sequence[tuple[str, str]] = (), messages: Sequence[bytes] | None = None
) -> tuple[str, dict[str, str | bytes]]:
    """Makes a call, and returns its status code and trailing metadata."""
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
    made = method(
        iter(MESSAGES.get(path, [b""]) if messages is None else messages),
        timeout=WAIT_SECONDS,
        metadata=tuple(metadata),
    )
    try:
        for _ in made:
            pass
    except grpc.RpcError:
        pass
    return made.code().name, dict(made.trailing_metadata())


@pytest.mark.parametrize("path", [RESHAPE, STREAM])
def test_admission_check_sees_metadata_and_sets_the_caller_identity(guarded: Guarded, channel: grpc.Channel, path: str):
    assert call(channel, path, [("name", "somebody"), (REQUEST_ID_KEY, "id-7")])[0] == "OK"
    guarded.book.await_empty()
    (info,) = guarded.book.admitted
    assert (info.method, info.peer.startswith("ipv4:127.0.0.1:"), info.request_id) == (path, True, "id-7")
    assert info.read_tls()["transport_security_type"] == [b"insecure"]
    guarded.watcher.await_event(Event.OVER)
    assert (guarded.watcher.results, info.identity) == ([(info, "OK")], "somebody")


@pytest.mark.parametrize("path", [RESHAPE, STREAM])
def test_call_rejected_by_an_admission_check_holds_no_memory(guarded: Guarded, channel: grpc.Channel, path: str):
    code, trailing = call(channel, path, [("reject", "yes")])
    assert (code, b"not you" in bytes(trailing["grpc-status-details-bin"])) == ("RESOURCE_EXHAUSTED", True)  # type: ignore[arg-type]
    guarded.watcher.await_event(Event.OVER)
    assert [event for event, _ in guarded.watcher.seen] == [Event.ENTER, Event.END, Event.OVER]
    assert [code for _, code in guarded.watcher.results] == ["RESOURCE_EXHAUSTED"]
    assert (guarded.book.admitted, guarded.book.left) == ([], [])
    assert guarded.runner._engine.is_idle


@pytest.mark.parametrize(
    ("path", "messages", "result"),
    [
        (RESHAPE, None, "OK"),
        (RESHAPE, [LONG], "OK"),
        (STREAM, None, "OK"),
        (RESHAPE, [b"\xff"], "INVALID_ARGUMENT"),
        (STREAM, [b"\xff"], "INVALID_ARGUMENT"),
    ],
    ids=["unary", "long", "stream", "bad unary", "bad stream"],
)
def test_admission_check_metadata_is_sent_with_every_status(
    channel: grpc.Channel, path: str, messages: list[bytes] | None, result: str
):
    code, trailing = call(channel, path, messages=messages)
    assert (code, trailing.get(TRAILING[0])) == (result, TRAILING[1])


@pytest.mark.parametrize("path", [RESHAPE, STREAM])
def test_cancelled_call_notifies_its_admission_checks(guarded: Guarded, channel: grpc.Channel, path: str):
    requests = SimpleQueue[bytes | None]()
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
    made = method(iter(requests.get, None))
    guarded.watcher.await_event(Event.READ)
    made.cancel()
    requests.put(None)
    guarded.book.await_empty()


@pytest.mark.parametrize("path", [RESHAPE, STREAM, REFLECTION])
def test_exception_in_an_admission_check_rejects_the_call(
    guarded: Guarded, channel: grpc.Channel, path: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.ERROR):
        code, trailing = call(channel, path, [("bug", "yes")])
    assert (code, "secret" in str(trailing)) == ("INTERNAL", False)
    assert (guarded.book.admitted, [one.message for one in caplog.records]) == ([], ["bug"])


@pytest.mark.parametrize("path", [HEALTH_CHECK, PROBE])
def test_health_check_bypasses_admission_checks(guarded: Guarded, channel: grpc.Channel, path: str):
    assert call(channel, path, [("reject", "yes")])[0] == "OK"
    assert guarded.book.admitted == []


def test_health_watch_bypasses_admission_checks(guarded: Guarded, channel: grpc.Channel):
    watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(HEALTH_WATCH)
    assert next(watch(b"", metadata=(("reject", "yes"),), timeout=WAIT_SECONDS)) == b"\x08\x01"
    assert guarded.book.admitted == []


def test_reflection_passes_the_admission_checks(guarded: Guarded, channel: grpc.Channel):
    assert call(channel, REFLECTION, [("reject", "yes")])[0] == "RESOURCE_EXHAUSTED"
    assert call(channel, REFLECTION, [("name", "somebody")], [b"\x3a\x00"])[0] == "OK"
    guarded.book.await_empty()
    assert [(info.method, info.identity) for info in guarded.book.admitted] == [(REFLECTION, "somebody")]


@pytest.mark.parametrize("path", [RESHAPE, STREAM])
def test_earlier_admission_checks_are_notified_if_a_later_rejects(path: str):
    later = RecordingGate(REJECTED)
    with guard(later) as guarded, grpc.insecure_channel(guarded.address) as channel:
        assert call(channel, path)[0] == "RESOURCE_EXHAUSTED"
        guarded.book.await_empty()
    assert (len(guarded.book.left), later.left.acquire(blocking=False)) == (1, False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("path", [RESHAPE, STREAM, REFLECTION])
def test_admission_check_sees_the_names_in_the_client_certificate(files: Certificates, path: str):
    settings: dict[str, Any] = {
        "tls_certificate": files.server,
        "tls_key": files.server_key,
        "tls_client_ca": files.authority,
    }
    with guard(**settings) as guarded, grpc.secure_channel(guarded.address, files.identity) as channel:
        messages = [b"\x3a\x00"] if path == REFLECTION else None
        assert call(channel, path, messages=messages)[0] == "OK"
        names = guarded.book.admitted[0].read_tls()["x509_subject_alternative_name"]
    assert b"client@example.org" in names


def test_server_without_admission_checks_rejects_no_call():
    assert not Gates()
    assert Gates().find_rejection(CallInfo(RESHAPE, ())) is None


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make_info(peer: str = ONE, identity: str = "") -> CallInfo:
    info = CallInfo("/a/B", (), peer)
    info.identity = identity
    return info


def admit(quotas: CallerQuotas, peer: str = ONE, count: int = 1) -> list[CallInfo]:
    infos = [make_info(peer) for _ in range(count)]
    for info in infos:
        quotas.admit(info)
    return infos


def reject(quotas: CallerQuotas, peer: str = ONE) -> LimitError:
    with pytest.raises(LimitError) as caught:
        quotas.admit(make_info(peer))
    assert caught.value.reason == Reason.QUOTA_EXCEEDED
    return caught.value


def test_quota_limits_the_running_calls_of_a_client(clock: Clock):
    quotas = CallerQuotas(2, 0, clock)
    admit(quotas, count=2)
    assert reject(quotas).message == "this caller has 2 running calls, and the limit is 2"


def test_finished_call_frees_its_concurrency_quota(clock: Clock):
    quotas = CallerQuotas(1, 0, clock)
    (info,) = admit(quotas)
    quotas.leave(info)
    admit(quotas)
    reject(quotas)


def test_quotas_of_different_clients_are_independent(clock: Clock):
    quotas = CallerQuotas(1, 1.0, clock)
    admit(quotas, ONE)
    admit(quotas, OTHER)
    reject(quotas, ONE)


def test_call_rate_limit_allows_a_burst_of_one_second(clock: Clock):
    quotas = CallerQuotas(0, 5.0, clock)
    admit(quotas, count=5)
    assert "5 calls per second" in reject(quotas).message


def test_call_after_the_retry_delay_is_admitted(clock: Clock):
    quotas = CallerQuotas(0, 4.0, clock)
    admit(quotas, count=4)
    seconds = reject(quotas).retry_seconds
    assert seconds == pytest.approx(0.25)
    clock.now += seconds or 0.0
    admit(quotas)
    reject(quotas)


def test_rate_limit_below_one_per_second_allows_occasional_calls(clock: Clock):
    quotas = CallerQuotas(0, 0.1, clock)
    admit(quotas)
    assert reject(quotas).retry_seconds == pytest.approx(10)


def test_rejected_call_uses_no_rate_limit_token(clock: Clock):
    quotas = CallerQuotas(0, 1.0, clock)
    admit(quotas)
    for _ in range(100):
        reject(quotas)
    clock.now += 1
    admit(quotas)


def test_idle_client_does_not_accumulate_rate_limit_tokens(clock: Clock):
    quotas = CallerQuotas(0, 3.0, clock)
    admit(quotas)
    clock.now += 1000
    admit(quotas, count=3)
    reject(quotas)


def test_concurrency_quota_error_has_no_retry_delay(clock: Clock):
    quotas = CallerQuotas(1, 0, clock)
    admit(quotas)
    assert reject(quotas).retry_seconds is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((ONE,), ("ipv4:192.0.2.1:2",), True),
        (("ipv6:%5B2001:db8:1:2::1%5D:1",), ("ipv6:%5B2001:db8:1:2:ffff::9%5D:2",), True),
        (("ipv6:%5B2001:db8:1:2::1%5D:1",), ("ipv6:%5B2001:db8:1:3::1%5D:1",), False),
        (("unix:",), ("unix:/path",), True),
        ((ONE, "ann"), (OTHER, "ann"), True),
        ((ONE, "ann"), (ONE, "bob"), False),
        ((ONE,), (OTHER, find_caller(make_info(ONE))), False),  # an identity is never equal to a host
    ],
)
def test_quota_applies_per_identity_host_ipv6_network_or_socket(
    one: tuple[str, ...], other: tuple[str, ...], same: bool
):
    assert (find_caller(make_info(*one)) == find_caller(make_info(*other))) == same


@pytest.mark.parametrize(("rate", "most"), [(10.0, 3), (0, 1)], ids=["with a rate", "without"])
def test_quota_table_forgets_idle_clients(clock: Clock, rate: float, most: int):
    quotas = CallerQuotas(5, rate, clock)
    for number in range(100):
        for info in admit(quotas, f"ipv4:192.0.2.{number}:1"):
            quotas.leave(info)
        clock.now += 0.5
    assert len(quotas) <= most


def test_quota_table_size_is_limited_for_many_addresses(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gates, "MAX_CALLERS", 20)
    table = CallerQuotas(1, 0.001, clock)
    (info,) = admit(table, ONE)
    for number in range(1000):
        for passing in admit(table, name_peer(number)):
            table.leave(passing)
    assert len(table) == 20
    reject(table, ONE)
    table.leave(info)


@pytest.mark.parametrize(
    ("config", "count"),
    [(Config(), 0), (Config(max_calls_per_caller=1), 1), (Config(max_calls_per_caller_per_second=1.0), 1)],
)
def test_quota_check_exists_only_if_configured(config: Config, count: int):
    assert len(build_quotas(config)) == count
