"""The page that Prometheus scrapes."""

import pytest
from prometheus_client import generate_latest

from telemetry import Scrape
from tensor_reshape.server.telemetry.metrics import CALL_DURATION, CALLS, MAX_CALLS, REJECTIONS, SharedCounters, observe
from tensor_reshape.server.telemetry.prometheus import PROCESS_PREFIX, OnlyProcess, build_registry

LABELS = {"service": "a.service", "method": "First"}
FIRST = tuple(LABELS.values())
METHODS = ("/a.service/First", "/a.service/Second")


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
