"""Start, drain and shutdown of servers."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from in_process import ANY_PORT, hurry_stop, run_blocked
from plain_requests import INFER, INFERRED, send_raw
from server_processes import STOP_SECONDS, ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus, ServiceError, UnavailableError
from tensor_reshape.server.config import Config
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.methods import SERVICE

SIX = np.arange(6, dtype=np.float32)
MOMENT_SECONDS = 0.001
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
LONG = Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=20)
LONG_GRACE = ("--shutdown-grace-seconds", str(2 * STOP_SECONDS))  # longer than the tests wait for the end of a server
SHORT = Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0.1)


# Sends Ctrl-C while a server is importing its modules.
INTERRUPT = """
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "grpc":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""


def flatten(client: Client) -> Array:
    return client.static_reshape(SIX, [6], special_zero=False)


def watch_health(channel: grpc.Channel, service: str = "") -> Iterator[health_pb2.HealthCheckResponse]:
    """Opens a health watch and checks that its first status is SERVING."""
    request = health_pb2.HealthCheckRequest(service=service)
    watch: Iterator[health_pb2.HealthCheckResponse] = health_pb2_grpc.HealthStub(channel).Watch(request)
    assert next(watch).status == SERVING
    return watch


def await_rejection(address: str) -> None:
    """Connects again and again until the port is closed."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionError:
            return


def has_ended(server: ServerProcess) -> bool:
    """Whether a server has exited, or exits within a moment. Signals without a pause would delay its exit."""
    with suppress(subprocess.TimeoutExpired):
        server.process.wait(MOMENT_SECONDS)
    return server.process.poll() is not None


@pytest.mark.parametrize(
    ("first", "second", "workers"),
    [
        (signal.SIGTERM, signal.SIGINT, "1"),
        (signal.SIGINT, signal.SIGHUP, "1"),
        (signal.SIGHUP, signal.SIGTERM, "1"),
        (signal.SIGHUP, signal.SIGHUP, "2"),
    ],
)
def test_second_signal_ends_the_drain_period(first: signal.Signals, second: signal.Signals, workers: str):
    with run_server("--workers", workers, "--drain-seconds", "600") as server:
        server.process.send_signal(first)
        server.await_records(1, "stopping", cause=first.name)  # workers also log lines, in any order
        assert server.stop(second) == 0
    messages = [record["message"] for record in server.records if "worker" not in record]
    assert messages == ["listening", "serving", "stopping", "stopped"]


def test_interrupting_the_server_start_prints_no_traceback(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    command = [sys.executable, "-m", "tensor_reshape.server", "--listen", ANY_PORT]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, check=False, timeout=STOP_SECONDS
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_draining_server_reports_not_serving_but_still_serves_calls():
    with run_server("--drain-seconds", "30") as server, grpc.insecure_channel(server.address) as channel:
        watches = [watch_health(channel, service) for service in ("", SERVICE)]
        server.process.send_signal(signal.SIGTERM)
        assert [next(watch).status for watch in watches] == [NOT_SERVING] * 2
        assert send_raw(channel, "InferShape", INFER) == INFERRED
        assert server.stop() == 0  # the second signal ends the drain period


def test_second_signal_ends_running_calls_during_shutdown():
    with (
        run_server("--drain-seconds", "0", *LONG_GRACE) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        watch = watch_health(channel)
        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == NOT_SERVING
        assert server.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")
@pytest.mark.parametrize("workers", [1, 2])
def test_further_signals_during_shutdown_do_not_change_the_exit_code(workers: int):
    with run_server("--workers", str(workers)) as server:
        pids = [record["pid"] for record in server.records if record["message"] == "worker serves"]
        assert len(pids) == (workers if workers > 1 else 0)
        while not has_ended(server):
            for pid in (server.process.pid, *pids):
                with suppress(ProcessLookupError):  # it has ended
                    os.kill(pid, signal.SIGTERM)
        assert server.wait() == 0
    assert [record["code"] for record in server.records if record["message"] == "worker ended"] == [0] * len(pids)


def test_idle_clients_and_health_watches_do_not_delay_shutdown():
    with (
        run_server(*LONG_GRACE) as server,
        grpc.insecure_channel(server.address) as channel,
        Client(server.address) as client,
    ):
        watch = watch_health(channel)
        flatten(client)
        assert server.stop() == 0
        del watch  # kept until here, because it would cancel the call


def test_server_without_numpy_reshapes_dense_tensors(tmp_path: Path):
    (tmp_path / "numpy.py").write_text("raise ImportError")
    with run_server(env={"PYTHONPATH": str(tmp_path)}) as server, Client(server.address) as client:
        with pytest.raises(ServiceError, match="internal error"):
            client.static_reshape(SIX.reshape(2, 3).T, [6], special_zero=False)
        assert list(flatten(client)) == list(SIX)


def test_running_call_finishes_within_the_shutdown_grace_period():
    with run_blocked(LONG) as (runner, backend), Client(runner.addresses[0]) as client, ThreadPoolExecutor() as pool:
        call = pool.submit(flatten, client)
        assert backend.entered.wait(60)
        assert client.check_health(timeout=60) is HealthStatus.SERVING
        stop = pool.submit(runner.stop)
        await_rejection(runner.addresses[0])
        backend.released.set()
        assert call.result(60).tolist() == SIX.tolist()
        stop.result(60)


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize(("config", "hurries"), [(SHORT, False), (LONG, True)], ids=["after the grace", "hurried"])
def test_call_aborted_by_shutdown_is_unavailable(config: Config, hurries: bool):
    with run_blocked(config) as (runner, backend), Client(runner.addresses[0]) as client, ThreadPoolExecutor() as pool:
        call = pool.submit(flatten, client)
        assert backend.entered.wait(60)
        stopped = pool.submit(hurry_stop, runner).result(10) if hurries else pool.submit(runner.stop).result(60)
        assert stopped == 1
        with pytest.raises(UnavailableError):
            call.result(40)  # the call waits for another server as long as the SDK does
