"""Metrics of running servers."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

import grpc
import numpy as np
import pytest

from plain_requests import send_raw
from server_processes import ServerProcess, run_server
from telemetry import Scrape, await_scrape, find_metrics, scrape
from tensor_reshape.client import Client
from tensor_reshape.wire.methods import SERVICE

ANY = "127.0.0.1:0"
SIX = np.arange(6, dtype=np.float32)
STATIC = {"service": SERVICE, "method": "StaticReshape"}
STREAM = {"service": SERVICE, "method": "StreamReshape"}


@pytest.fixture
def counted(start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    return start_for_file("--metrics-listen", ANY)


def count_calls(labels: dict[str, str], **counts: int) -> Callable[[Scrape], bool]:
    """Returns a function that checks the number of calls of a method for each code."""
    return lambda page: all(
        page.find("tensor_reshape_calls_total", **labels, code=code) == count for code, count in counts.items()
    )


def test_metrics_count_calls_and_bytes_by_method_and_code(counted: ServerProcess):
    with Client(counted.address) as client:
        for _ in range(3):
            client.static_reshape(SIX, [2, 3], special_zero=False)
        client.static_reshape(SIX, [2, 3], special_zero=False, transfer="stream")
    with grpc.insecure_channel(counted.address) as channel:
        for _ in range(2):
            with pytest.raises(grpc.RpcError):
                send_raw(channel, "StaticReshape", b"\xff")
    url = find_metrics(counted)
    page = await_scrape(url, count_calls(STATIC, OK=3, INVALID_ARGUMENT=2))
    page = await_scrape(url, count_calls(STREAM, OK=1))
    assert page.find("tensor_reshape_rejections_total", reason="MESSAGE_MALFORMED") == 2
    assert page.find("tensor_reshape_call_duration_seconds_count", **STATIC) == 5
    assert page.find("tensor_reshape_request_bytes_count", **STATIC) == 5
    assert page.find("tensor_reshape_request_bytes_sum", **STATIC) > 3 * SIX.nbytes
    assert page.find("tensor_reshape_response_bytes_count", **STATIC) == 3
    assert page.find("tensor_reshape_response_bytes_sum", **STREAM) > SIX.nbytes
    page = await_scrape(
        url, lambda page: page.find("tensor_reshape_response_header_cache_lookups_total", result="hit") == 2
    )
    assert page.find("tensor_reshape_response_header_cache_lookups_total", result="miss") == 1


def test_metrics_count_running_calls_until_the_end(counted: ServerProcess):
    url = find_metrics(counted)
    cancelled = {**STREAM, "code": "CANCELLED"}
    over = scrape(url).sum("tensor_reshape_calls_total", **cancelled)
    with ExitStack() as stack:
        calls = [open_silent_stream(counted.address, stack) for _ in range(2)]
        # All values in one scrape, because a connection of another test may be closing.
        page = await_scrape(url, shows_two_streams)
        used = page.find("tensor_reshape_memory_budget_used_bytes", pool="receive")
        assert 0 < used < page.find("tensor_reshape_memory_budget_bytes", pool="receive")
        for call in calls:
            call.cancel()
        await_scrape(url, lambda page: page.find("tensor_reshape_active_streams") == 0)
        await_scrape(url, lambda page: page.sum("tensor_reshape_calls_total", **cancelled) == over + 2)


def shows_two_streams(page: Scrape) -> bool:
    names = ("tensor_reshape_active_streams", "tensor_reshape_connections")
    receiving = page.find("tensor_reshape_active_calls", state="receiving")
    return [*map(page.find, names), receiving] == [2, 2, 2]


def open_silent_stream(address: str, stack: ExitStack) -> grpc.Call:
    """Opens a stream without messages on its own connection."""
    channel = stack.enter_context(grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]))
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/StreamReshape")
    ended = threading.Event()
    stack.callback(ended.set)
    return method(b"" for _ in iter(ended.wait, True))


def crowd(server: ServerProcess, stack: ExitStack) -> None:
    """Opens 60 connections with unfinished requests to the metrics port."""
    host, _, port = find_metrics(server).removeprefix("http://").removesuffix("/metrics").rpartition(":")
    for _ in range(60):
        one = stack.enter_context(socket.create_connection((host, int(port))))
        one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")


def test_metrics_port_is_open_while_the_server_drains():
    flags = ("--metrics-listen", ANY, "--drain-seconds", "60")
    with run_server(*flags) as server, ExitStack() as stack:
        server.process.send_signal(signal.SIGTERM)
        server.await_records(1, "stopping")
        assert scrape(find_metrics(server)).find("tensor_reshape_workers") == 1
        crowd(server, stack)  # must not delay the shutdown
        assert server.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")
def test_metrics_sum_all_workers_and_survive_a_killed_worker():
    with run_server("--workers", "2", "--metrics-listen", ANY) as server, ExitStack() as stack:
        url, calls = find_metrics(server), 20
        crowd(server, stack)  # must not delay calls or the shutdown
        pids = {record["worker"]: record["pid"] for record in server.await_records(2, "worker serves")}
        for _ in range(calls):  # one connection each, so both workers get some
            client = stack.enter_context(Client(server.address))
            client.static_reshape(SIX, [2, 3], special_zero=False)
        before = await_scrape(url, count_calls(STATIC, OK=calls))
        assert (before.find("tensor_reshape_workers"), before.find("tensor_reshape_serving_workers")) == (2, 2)
        os.kill(pids[1], signal.SIGKILL)
        server.await_records(3, "worker serves")
        with Client(server.address) as client:
            client.static_reshape(SIX, [2, 3], special_zero=False)
        after = await_scrape(url, count_calls(STATIC, OK=calls + 1))
        assert after.find("tensor_reshape_worker_restarts_total", worker="1") == 1
        assert after.find("tensor_reshape_worker_restarts_total", worker="2") == 0
        assert after.find("tensor_reshape_worker_process_resident_memory_bytes", worker="1") > 0
        assert server.stop() == 0
        assert not any(record["message"] == "worker hangs" for record in server.records)


def test_supervisor_does_not_import_prometheus_client_without_metrics():
    program = "import sys, tensor_reshape.server.workers.supervisor; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
