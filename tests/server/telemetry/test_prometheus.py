"""The page that Prometheus scrapes, and its HTTP port."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from http_calls import connect, receive_all
from telemetry import Scrape
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.telemetry import prometheus
from tensor_reshape.server.telemetry.metrics import CALL_DURATION, CALLS, MAX_CALLS, REJECTIONS, SharedCounters, observe
from tensor_reshape.server.telemetry.prometheus import PROCESS_PREFIX, OnlyProcess, build_registry, serve_metrics

LABELS = {"service": "a.service", "method": "First"}
FIRST = tuple(LABELS.values())
METHODS = ("/a.service/First", "/a.service/Second")
ANY = "127.0.0.1:0"
GET = b"GET /metrics HTTP/1.1\r\n\r\n"
WAIT_SECONDS = 60.0


class EndedProcess:
    """A worker that has ended, and has been started four times."""

    pid, number, serves, starts, hangs = None, 2, False, 4, 1


def render(*sources: tuple[OnlyProcess | EndedProcess, SharedCounters]) -> str:
    return generate_latest(build_registry(sources)).decode()


def read(*sources: tuple[OnlyProcess | EndedProcess, SharedCounters]) -> Scrape:
    return Scrape(render(*sources))


def make_counters(seconds: float, max_calls: int) -> SharedCounters:
    counters = SharedCounters(METHODS)
    counters.cells[CALLS][*FIRST, "OK"][0] = 2.0
    counters.cells[REJECTIONS]["SERVER_BUSY",][0] = 3.0
    counters.cells[REJECTIONS]["NOT_DIVISIBLE",][0] = 4.0
    counters.set(MAX_CALLS, max_calls)
    observe(CALL_DURATION, counters.cells[CALL_DURATION][FIRST], seconds)
    return counters


def test_metrics_page_sums_the_values_of_all_processes():
    every = [make_counters(0.003, 10), make_counters(0.5, 20)]
    page = read(*((OnlyProcess(number=number), counters) for number, counters in enumerate(every, 1)))
    assert page.find("tensor_reshape_calls_total", **LABELS, code="OK") == 4
    assert page.find("tensor_reshape_max_calls") == 30
    assert page.find("tensor_reshape_call_duration_seconds_bucket", **LABELS, le="0.0025") == 0
    assert page.find("tensor_reshape_call_duration_seconds_bucket", **LABELS, le="0.005") == 1
    assert page.find("tensor_reshape_call_duration_seconds_bucket", **LABELS, le="+Inf") == 2
    assert page.find("tensor_reshape_call_duration_seconds_count", **LABELS) == 2
    assert page.find("tensor_reshape_call_duration_seconds_sum", **LABELS) == pytest.approx(0.503)


def test_metrics_page_keeps_only_counters_of_an_ended_process():
    every = [make_counters(0.003, 10), make_counters(0.5, 20)]
    page = read((OnlyProcess(), every[0]), (EndedProcess(), every[1]))
    assert page.find("tensor_reshape_calls_total", **LABELS, code="OK") == 4
    assert page.find("tensor_reshape_max_calls") == 10
    assert (page.find("tensor_reshape_workers"), page.find("tensor_reshape_serving_workers")) == (2, 1)
    assert page.find("tensor_reshape_worker_restarts_total", worker="2") == 3
    assert page.find("tensor_reshape_worker_missed_heartbeats_total", worker="2") == 1
    assert page.find(f"{PROCESS_PREFIX}_process_resident_memory_bytes", worker="1") > 0
    assert page.find(f"{PROCESS_PREFIX}_process_resident_memory_bytes", worker="2") == 0


def test_metrics_page_has_every_status_code_of_a_called_method():
    page = render((OnlyProcess(), make_counters(1.0, 1)))
    lines = [line for line in page.splitlines() if line.startswith("tensor_reshape_calls_total")]
    assert 'tensor_reshape_calls_total{code="INTERNAL",method="First",service="a.service"} 0.0' in lines
    assert not any('"Second"' in line or '"DATA_LOSS"' in line for line in lines)


def test_metrics_page_has_build_versions_and_process_metrics(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRPC_EXPERIMENTS", "event_engine_listener")
    page = read((OnlyProcess(), SharedCounters(METHODS)))
    assert page.sum("tensor_reshape_build_info", io_engine="event") == 1
    assert page.list_values("version").isdisjoint({"", "unknown"})
    assert page.find("process_resident_memory_bytes") > 0


class Page(Collector):
    """A metric with `size` characters of help. Each exception in `failures` is raised once before."""

    def __init__(self, size: int = 1, failures: list[Exception] | None = None) -> None:
        self._size = size
        self._failures = failures or []

    def collect(self) -> Iterator[Metric]:
        if self._failures:
            raise self._failures.pop()
        yield GaugeMetricFamily("answer", "x" * self._size, value=42)


def ask(address: str, request: bytes = GET) -> tuple[bytes, bytes]:
    """Returns the first line and the body of the response."""
    with connect(address) as connection:
        connection.sendall(request)
        head, _, body = receive_all(connection).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


def test_metrics_port_returns_the_metrics_page():
    with serve_metrics(ANY, Page()) as address:
        status, page = ask(address)
    assert status == b"HTTP/1.0 200 OK"
    assert page.splitlines() == [b"# HELP answer x", b"# TYPE answer gauge", b"answer 42.0"]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus._Handler, "timeout", 0.5)


def join_threads() -> None:
    """Waits for the threads of all connections, which have the name of the server's method."""
    for thread in threading.enumerate():
        if "process_request" in thread.name:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()


@pytest.mark.usefixtures("hasty")
def test_metrics_port_closes_connections_without_a_request():
    with serve_metrics(ANY, Page()) as address, ExitStack() as stack:
        silent = [stack.enter_context(connect(address)) for _ in range(10)]
        assert ask(address)[0] == b"HTTP/1.0 200 OK"
        assert [receive_all(connection) for connection in silent] == [b""] * 10


@pytest.mark.usefixtures("hasty")
def test_metrics_port_closes_connections_that_do_not_read():
    # The page exceeds the socket buffers.
    with serve_metrics(ANY, Page(1 << 24)) as address, connect(address) as connection:
        connection.sendall(GET)
        assert connection.recv(1) == b"H"
        join_threads()
        assert len(receive_all(connection)) < 1 << 24


def test_failed_metrics_scrape_is_logged_and_the_next_succeeds(caplog: pytest.LogCaptureFixture):
    with serve_metrics(ANY, Page(failures=[ValueError("secret")])) as address:
        assert ask(address) == (b"", b"")
        assert ask(address)[0] == b"HTTP/1.0 200 OK"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["bug"]


def test_metrics_port_frees_its_address_when_it_stops():
    with serve_metrics(ANY, Page()) as address:
        with pytest.raises(ConfigError, match="cannot listen on"), serve_metrics(address, Page()):
            pytest.fail("two ports have one address")
        assert ask(address)[0] == b"HTTP/1.0 200 OK"
    with serve_metrics(address, Page()) as again:
        assert ask(again)[0] == b"HTTP/1.0 200 OK"


def test_metrics_port_listens_on_all_addresses_of_a_host_name():
    with serve_metrics("localhost:0", Page()) as address:
        port = int(address.rpartition(":")[2])
        for family, _, _, _, place in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM):
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.connect(place)
                connection.sendall(GET)
                assert receive_all(connection).startswith(b"HTTP/1.0 200 OK")
