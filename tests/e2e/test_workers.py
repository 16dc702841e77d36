"""Several processes behind one port, and what becomes of them."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from certificates import issue_certificates
from command_line import Outcome, run_module
from meters import read_descriptors
from remote_refusals import send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")

TWO = ("--workers", "2")
SIX = np.arange(6, dtype=np.float32)
END_SECONDS = 60
# Has a child that ends with standard input, then becomes the server.
ADOPT = """
import os, sys

child = os.fork()
if not child:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.execv(sys.executable, [sys.executable, "-m", "tensor_reshape.server", *sys.argv[1:]])
"""
_Response = health_pb2.HealthCheckResponse


@pytest.fixture(scope="module")
def pair() -> Iterator[ServerProcess]:
    with run_server(*TWO, "--log-level", "debug", listen=("127.0.0.1:0", "localhost:0")) as server:
        yield server


def serve(*arguments: str) -> Outcome:
    return run_module("tensor_reshape.server", *arguments)


def find_pid(server: ServerProcess, worker: int) -> int:
    """Returns the process of a worker, the latest that has served."""
    pid = server.await_records(1, "worker serves", worker=worker)[-1]["pid"]
    assert isinstance(pid, int)
    return pid


def open_channel(address: str, stack: ExitStack) -> grpc.Channel:
    """Opens a connection of its own: channels share them otherwise."""
    return stack.enter_context(grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]))


def reach_every_worker(server: ServerProcess, stack: ExitStack) -> list[grpc.Channel]:
    """Opens channels until each worker of a pair has one; the log at debug level says who refused a request."""
    channels: list[grpc.Channel] = []
    while {record["worker"] for record in server.records if record["message"] == "refused"} != {1, 2}:
        channels.append(open_channel(server.address, stack))
        with pytest.raises(grpc.RpcError):
            send_raw(channels[-1], "StaticReshape", b"\xff")
        server.await_records(len(channels), "refused")
    return channels


@contextmanager
def keep_calling(address: str) -> Iterator[list[float]]:
    """Calls with the SDK's defaults until the end of the block, where a call that failed raises. Yields their times."""
    finished, seconds = threading.Event(), list[float]()

    def call() -> None:
        with Client(address) as client:
            while not finished.is_set():
                begin = time.monotonic()
                assert client.static_reshape(SIX, [6], special_zero=False).shape == (6,)
                seconds.append(time.monotonic() - begin)

    with ThreadPoolExecutor() as pool:
        calls = pool.submit(call)
        try:
            yield seconds
        finally:
            finished.set()
        calls.result()


def await_end(*pids: int) -> None:
    """Awaits the end of processes that are not this one's children."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], END_SECONDS)[0], pid
        finally:
            os.close(descriptor)


def test_one_port_is_shared_by_processes_that_all_answer(pair: ServerProcess):
    with ExitStack() as stack:
        assert all(
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status == _Response.SERVING
            for channel in reach_every_worker(pair, stack)
        )
    assert len({find_pid(pair, 1), find_pid(pair, 2), pair.process.pid}) == 3


def test_the_server_listens_when_every_worker_serves(pair: ServerProcess):
    messages = [record["message"] for record in pair.records if record["message"] != "refused"]
    assert messages == ["worker serves", "worker serves", "listening", "listening", "serving"]


def test_every_address_is_shared(pair: ServerProcess):
    for address in pair.addresses:
        with Client(address) as client:
            assert client.check_health() is HealthStatus.SERVING


def test_killed_workers_are_replaced_and_no_call_fails():
    with run_server(*TWO) as server, keep_calling(server.address) as seconds:
        for worker in (1, 2):
            os.kill(find_pid(server, worker), signal.SIGKILL)
            server.await_records(1, "worker ended", worker=worker, code=-signal.SIGKILL)
            server.await_records(2, "worker serves", worker=worker)
    assert max(seconds) < END_SECONDS  # no call has waited for its deadline


def test_a_worker_that_hangs_is_replaced_and_no_call_fails():
    with run_server(*TWO) as server, keep_calling(server.address):
        os.kill(find_pid(server, 1), signal.SIGSTOP)
        server.await_records(2, "worker serves", worker=1)
        assert server.await_records(1, "worker hangs")[0]["worker"] == 1


def test_a_worker_that_is_told_to_stop_is_replaced_and_no_call_fails():
    with run_server(*TWO) as server, keep_calling(server.address):
        os.kill(find_pid(server, 1), signal.SIGTERM)
        server.await_records(1, "worker ended", worker=1, code=0)
        server.await_records(2, "worker serves", worker=1)


def test_all_workers_say_not_serving_and_the_server_ends_with_exit_code_0():
    with run_server(*TWO, "--drain-seconds", "30", "--log-level", "debug") as server, ExitStack() as stack:
        channels = reach_every_worker(server, stack)
        watches = [health_pb2_grpc.HealthStub(one).Watch(health_pb2.HealthCheckRequest()) for one in channels]
        assert {next(watch).status for watch in watches} == {_Response.SERVING}
        server.process.send_signal(signal.SIGTERM)
        assert {next(watch).status for watch in watches} == {_Response.NOT_SERVING}
        assert server.stop(signal.SIGINT) == 0  # the second signal: the drain is cut short
        assert [record["code"] for record in server.records if record["message"] == "worker ended"] == [0, 0]


def test_signals_that_reach_the_workers_as_well_neither_end_nor_hurry_them():
    with run_server(*TWO, "--drain-seconds", "1") as server:
        begin, workers = time.monotonic(), (find_pid(server, 1), find_pid(server, 2))
        for pid, number in product(workers, (signal.SIGHUP, signal.SIGINT)):
            os.kill(pid, number)
        for pid in (workers[0], server.process.pid, workers[1]):
            os.kill(pid, signal.SIGTERM)
        assert server.wait() == 0
        assert time.monotonic() - begin > 1
    assert [record["code"] for record in server.records if record["message"] == "worker ended"] == [0, 0]


def test_no_worker_outlives_a_supervisor_that_is_killed():
    with run_server(*TWO) as server:
        workers = find_pid(server, 1), find_pid(server, 2)
        server.process.kill()
        await_end(*workers)
    assert [record["cause"] for record in server.records if record["message"] == "stopping"] == ["no supervisor"] * 2


def test_no_suspended_worker_outlives_a_supervisor_that_is_killed():
    with run_server(*TWO) as server:
        workers = find_pid(server, 1), find_pid(server, 2)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        server.process.kill()
        await_end(*workers)
    assert [record["cause"] for record in server.records if record["message"] == "stopping"] == ["no supervisor"] * 2


def test_what_a_worker_prints_is_not_taken_for_its_words(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("print('-!h', flush=True)")
    with run_server(*TWO, env={"PYTHONPATH": str(tmp_path)}) as server:
        with Client(server.address) as client:
            assert client.check_health() is HealthStatus.SERVING
        assert server.stop() == 0
    assert [record["code"] for record in server.records if record["message"] == "worker ended"] == [0, 0]


def test_children_that_the_supervisor_did_not_start_are_waited_for():
    # As process 1 of a container it becomes the parent of orphans. Here it has a child from before it was the server.
    flags = ["--listen", "127.0.0.1:0", "--log-format", "json", "--drain-seconds", "0", *TWO]
    command = [sys.executable, "-c", ADOPT, *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        child = int(process.stdout.readline())
        server = ServerProcess(process)
        server.read_addresses(1)
        process.stdin.close()
        while Path(f"/proc/{child}").exists():  # as long as it is not waited for; the end of that is no event
            time.sleep(0.01)
        assert server.stop() == 0


def find_private_sockets(server: ServerProcess) -> list[str]:
    """Returns the unix sockets on which the workers of a server listen."""
    inodes = {what for worker in (1, 2) for what in read_descriptors(find_pid(server, worker)).values()}
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [row[7] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in inodes]


@pytest.mark.parametrize("demands_certificates", [False, True])
def test_nobody_else_can_go_around_tls_to_a_worker(tmp_path: Path, demands_certificates: bool):
    files = issue_certificates(tmp_path)
    flags = ["--tls-certificate", files.server, "--tls-key", files.server_key]
    flags += ["--tls-client-ca", files.authority] if demands_certificates else []
    known = grpc.ssl_channel_credentials(
        *(path.read_bytes() for path in (files.authority, files.client_key, files.client))
    )
    temporary = tmp_path / "t"
    temporary.mkdir()
    with run_server(*TWO, *map(str, flags), env={"TMPDIR": str(temporary)}) as server:
        with Client(server.address, credentials=known) as client:
            assert client.check_health() is HealthStatus.SERVING
        (directory,) = temporary.iterdir()
        assert directory.stat().st_mode & 0o077 == 0
        assert {Path(path).parent for path in find_private_sockets(server)} == {directory}
        server.stop()
    assert not list(temporary.iterdir())


def test_a_directory_that_is_too_deep_for_sockets_is_no_obstacle(tmp_path: Path):
    files = issue_certificates(tmp_path)
    temporary = tmp_path / ("t" * 100)
    temporary.mkdir()
    flags = (*TWO, "--tls-certificate", str(files.server), "--tls-key", str(files.server_key))
    with run_server(*flags, env={"TMPDIR": str(temporary)}) as server:
        assert all(path.startswith("/dev/shm/") for path in find_private_sockets(server))
        assert find_private_sockets(server)
        server.stop()
    assert not list(temporary.iterdir())


def test_a_port_that_another_server_listens_on_is_refused(pair: ServerProcess):
    assert_refused(serve(*TWO, "--listen", pair.address), pair.address)


def test_the_port_of_workers_is_refused_to_a_server_without(pair: ServerProcess):
    assert_refused(serve("--listen", pair.address), pair.address)


def assert_refused(outcome: Outcome, address: str) -> None:
    assert (outcome.code, len(outcome.errors)) == (1, 1)
    assert outcome.errors[0].startswith(f"Error: cannot listen on {address}: ")


def test_a_unix_socket_is_refused(tmp_path: Path):
    assert_refused(serve(*TWO, "--listen", f"unix:{tmp_path}/s"), f"unix:{tmp_path}/s")


def test_what_no_worker_can_be_started_with_ends_the_server_with_one_line(tmp_path: Path):
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    outcome = serve(*TWO, "--listen", "127.0.0.1:0", "--tls-certificate", str(junk), "--tls-key", str(junk))
    assert outcome.code == 1
    assert len(outcome.errors) == 1
