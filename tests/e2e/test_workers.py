"""Servers with several workers."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from command_line import Outcome, run_module
from interruptions import Figures, keep_calling
from plain_requests import send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")

TWO = ("--workers", "2")
END_SECONDS = 60
_Response = health_pb2.HealthCheckResponse

CORE_THREADS = {"event_engine", "grpc_global_tim", "lifeguard"}
"""The names of the threads of gRPC's core."""


@pytest.fixture(scope="module")
def pair() -> Iterator[ServerProcess]:
    with run_server(*TWO, "--log-level", "debug", listen=("127.0.0.1:0", "localhost:0")) as server:
        yield server


def test_supervisor_does_not_import_grpc(pair: ServerProcess):
    assert "cygrpc" not in Path(f"/proc/{pair.process.pid}/maps").read_text()
    assert "cygrpc" in Path(f"/proc/{pair.find_pid(1)}/maps").read_text()


def test_idle_server_worker_has_few_threads(pair: ServerProcess):
    process = Path(f"/proc/{pair.find_pid(1)}")
    names = [thread.read_text().strip() for thread in process.glob("task/*/comm")]
    # The main thread, the log, housekeeping, the thread that receives calls, and one for each of four kinds of work.
    assert len([name for name in names if name not in CORE_THREADS]) == 8, names


def list_codes(server: ServerProcess) -> list[int]:
    return [record["code"] for record in server.records if record["message"] == "worker ended"]


def reach_every_worker(server: ServerProcess, stack: ExitStack) -> list[grpc.Channel]:
    """Opens channels until both workers have one. The log at the level debug names the worker of a rejected call."""
    channels: list[grpc.Channel] = []
    while {record["worker"] for record in server.records if record["message"] == "rejected"} != {1, 2}:
        own = [("grpc.use_local_subchannel_pool", 1)]  # otherwise channels would share connections
        channels.append(stack.enter_context(grpc.insecure_channel(server.address, options=own)))
        with pytest.raises(grpc.RpcError):
            send_raw(channels[-1], "StaticReshape", b"\xff")
        server.await_records(len(channels), "rejected")
    return channels


def test_workers_share_addresses_and_serve_before_listening_is_logged(pair: ServerProcess):
    pair.await_records(1, "serving")
    messages = [record["message"] for record in pair.records]
    assert messages == ["worker serves", "worker serves", "listening", "listening", "serving"]
    for address in pair.addresses:
        with Client(address) as client:
            assert client.check_health() is HealthStatus.SERVING
    with ExitStack() as stack:
        for channel in reach_every_worker(pair, stack):
            check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert check.status == _Response.SERVING
    assert len({pair.find_pid(1), pair.find_pid(2), pair.process.pid}) == 3


@pytest.mark.parametrize("flags", [TWO, ()], ids=["workers", "a server without"])
def test_other_servers_cannot_bind_the_port_shared_by_workers(pair: ServerProcess, flags: tuple[str, ...]):
    outcome = run_module("tensor_reshape.server", *flags, "--listen", pair.address)
    check_one_line(outcome)
    assert outcome.errors[0].startswith(f"Error: cannot listen on {pair.address}: ")


def check_one_line(outcome: Outcome) -> None:
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_exited_or_hung_workers_are_replaced_without_failed_calls():
    figures = Figures()
    with run_server(*TWO) as server, keep_calling(server.address, figures, rest_seconds=0.02):
        for worker, number, code in ((1, signal.SIGKILL, -9), (2, signal.SIGTERM, 0), (1, signal.SIGSTOP, -9)):
            figures.await_calls(10)
            begun = len(server.await_records(1, "worker serves", worker=worker))
            os.kill(server.find_pid(worker), number)
            server.await_records(begun + 1, "worker serves", worker=worker)
            assert list_codes(server)[-1] == code
        assert [record["worker"] for record in server.await_records(1, "worker hangs")] == [1]
        figures.await_calls(10)
    assert figures.failures == []
    assert max(figures.slowest_seconds.values()) < END_SECONDS  # no call has waited for its deadline


def test_draining_server_workers_report_not_serving():
    flags = (*TWO, "--drain-seconds", "30", "--log-level", "debug")
    with run_server(*flags) as server, ExitStack() as stack:
        channels = reach_every_worker(server, stack)
        watches = [health_pb2_grpc.HealthStub(one).Watch(health_pb2.HealthCheckRequest()) for one in channels]
        assert {next(watch).status for watch in watches} == {_Response.SERVING}
        server.process.send_signal(signal.SIGTERM)
        assert {next(watch).status for watch in watches} == {_Response.NOT_SERVING}
        assert server.stop(signal.SIGINT) == 0  # the second signal ends the drain period
    assert list_codes(server) == [0, 0]


def test_repeated_signals_to_workers_do_not_shorten_the_drain_period():
    with run_server(*TWO, "--drain-seconds", "0.5") as server:
        begin, workers = time.monotonic(), (server.find_pid(1), server.find_pid(2))
        for pid, number in product(workers, (signal.SIGHUP, signal.SIGINT)):
            os.kill(pid, number)
        for pid in (workers[0], server.process.pid, workers[1]):
            os.kill(pid, signal.SIGTERM)
        assert server.wait() == 0
        assert time.monotonic() - begin > 0.5
    assert list_codes(server) == [0, 0]


def test_start_error_of_all_workers_is_printed_once(tmp_path: Path):
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    flags = ("--listen", "127.0.0.1:0", "--tls-certificate", junk, "--tls-key", junk)
    check_one_line(run_module("tensor_reshape.server", *TWO, *flags))
