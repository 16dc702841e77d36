"""A server on a system without free threads, descriptors or memory."""

import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress

from http2 import Connection, grpc_message
from http_calls import connect
from meters import count_descriptors, read_memory
from plain_requests import STATIC_RESHAPE, build_static_request, can_call
from server_processes import ServerProcess, run_server
from steady_clients import run_steady_clients
from waits import await_that

MIB = 1 << 20
BACK_SECONDS = 30.0
"""It takes 4 to 5 seconds without other tests."""


def limit(option: str, value: int) -> tuple[str, ...]:
    """Returns the beginning of a command that runs the rest with a limit of `ulimit`."""
    return ("sh", "-c", f'ulimit {option} {value}; exec "$0" "$@"')


def limit_address_space(server: ServerProcess, size: int) -> None:
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size, hard))


def leave_no_thread(server: ServerProcess) -> None:
    """Leaves 1 MiB of address space, which is not enough for a thread's stack."""
    limit_address_space(server, read_memory(server.process.pid, "VmSize") + MIB)


def test_server_works_when_no_thread_can_be_started():
    with run_server() as server:
        assert can_call(server.address)
        leave_no_thread(server)
        assert [can_call(server.address) for _ in range(20)] == [True] * 20
        limit_address_space(server, resource.RLIM_INFINITY)
        assert can_call(server.address)
        leave_no_thread(server)
        assert server.stop() == 0


def test_server_start_prints_one_error_line_if_memory_is_insufficient():
    outcome = subprocess.run(
        [*limit("-v", 460 << 10), sys.executable, "-m", "tensor_reshape.server", "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (outcome.returncode, "Traceback" in outcome.stderr) == (1, False)
    assert outcome.stderr.splitlines()[-1].startswith("Error: ")


DEAF = """
import sys
from tensor_reshape.server import runner
from tensor_reshape.server.config import Config
from tensor_reshape.server.process.logs import configure_logs

def fail(method):
    raise SystemExit  # no call catches it

configure_logs("text", "info")
runner.log_outside = fail
runner.serve_until_signal(Config(listen=(sys.argv[1],), drain_seconds=0))
"""


def test_server_exits_with_code_1_when_its_receiving_thread_ends():
    command = [sys.executable, "-c", DEAF, "127.0.0.1:0"]
    quiet = {**os.environ, "GRPC_VERBOSITY": "NONE"}  # as the command line of the server sets it
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=quiet) as process:
        assert process.stderr is not None
        found = process.stderr.readline().split("address=")[1].split()[0]
        with Connection(found) as connection:
            connection.open("/no/where")
            assert process.wait(60) == 1
        assert "server can no longer serve" in process.stderr.read()


def test_server_frees_file_descriptors_of_closed_connections():
    with run_server(prefix=limit("-n", 64)) as server:
        connections = [connect(server.address) for _ in range(100)]
        await_that(lambda: can_call(server.address))
        assert server.process.poll() is None
        for connection in connections:
            connection.close()
        await_that(lambda: count_descriptors(server.process.pid) < 20)
        assert server.stop() == 0


class Flood:
    """Connections that send large requests and do not read the responses."""

    def __init__(self, address: str, size: int) -> None:
        self._request = grpc_message(build_static_request(size))
        self._threads = [threading.Thread(target=self._run, args=(address,)) for _ in range(12)]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()

    def _run(self, address: str) -> None:
        with suppress(OSError), Connection(address, initial_window=0) as connection:
            for _ in range(3):
                stream = connection.open(STATIC_RESHAPE)
                connection.send_data(stream, self._request, end=True, seconds=4)
            time.sleep(1)


def test_server_survives_a_flood_of_calls_with_limited_memory():
    with run_server(prefix=limit("-v", 1 << 20)) as server:
        Flood(server.address, 16 * MIB).run()
        await_that(lambda: can_call(server.address))
        assert server.stop() == 0


def test_server_memory_shrinks_after_a_flood_despite_running_calls():
    with run_server() as server:
        pid = server.process.pid
        assert can_call(server.address)
        base = read_memory(pid, "VmRSS")
        # A low rate, because the server returns memory only while calls reserve little, also on a slow machine.
        with run_steady_clients(server.address, ("sdk",), calls_per_second=2):
            assert any(is_high(server, 8 * MIB, base + 100 * MIB) for _ in range(10))
            await_that(lambda: read_memory(pid, "VmRSS") - base < 64 * MIB, BACK_SECONDS)


def is_high(server: ServerProcess, size: int, water: int) -> bool:
    """Floods a server and returns whether its memory rose above `water`. On a busy machine, too little may arrive."""
    Flood(server.address, size).run()
    return read_memory(server.process.pid, "VmHWM") > water
