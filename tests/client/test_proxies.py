"""What the environment says of proxies, and which targets follow it."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from command_line import run_module
from server_processes import ServerProcess

VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "no_proxy", "no_grpc_proxy")
PROXIED = {"http_proxy": "http://127.0.0.1:9"}  # where nobody listens
USE_BOTH = """
import asyncio, sys
from tensor_reshape.client import AsyncClient, Client

async def infer(target):
    async with AsyncClient(target) as client:
        return await client.infer_shape([2, 3], [-1], special_zero=False, timeout=60)

for target in sys.argv[1:]:
    with Client(target) as client:
        print(client.infer_shape([2, 3], [-1], special_zero=False, timeout=60), asyncio.run(infer(target)))
"""


@pytest.fixture(autouse=True)
def _no_other_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def run_proxy() -> Iterator[tuple[str, "Future[bytes]"]]:
    """Takes one connection and closes it. Yields the proxy's address, and what it is asked."""
    asked: Future[bytes] = Future()

    def take(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.set_result(connection.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=take, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        thread.join()


def list_local_targets(server: ServerProcess) -> list[str]:
    port, sock = server.address.rpartition(":")[2], server.addresses[1]
    return [server.address, f"localhost:{port}", f"dns:///localhost:{port}", f"ipv4:127.0.0.1:{port}", sock]


def test_both_clients_reach_this_machine_past_a_proxy_that_is_not_there(server: ServerProcess):
    targets = list_local_targets(server)
    result = subprocess.run(
        [sys.executable, "-c", USE_BOTH, *targets],
        capture_output=True,
        text=True,
        env={**os.environ, **PROXIED},
        timeout=60,
        check=False,
    )
    assert result.stdout.splitlines() == ["[6] [6]"] * len(targets), result.stderr


def test_the_health_check_of_the_image_reaches_its_server_past_a_proxy_that_is_not_there(server: ServerProcess):
    port = server.address.rpartition(":")[2]
    environment = {**PROXIED, "TENSOR_RESHAPE_SERVER": f"localhost:{port}"}
    outcome = run_module("tensor_reshape.cli", "health", "--timeout", "10", env=environment)
    assert (outcome.code, outcome.text) == (0, "SERVING"), outcome.errors


def test_other_targets_follow_the_environment():
    target = "reshape.example:50051"
    with run_proxy() as (proxy, asked):
        outcome = run_module(
            "tensor_reshape.cli", "health", "--server", target, "--timeout", "5", env={"http_proxy": proxy}
        )
        assert asked.result(60).startswith(f"CONNECT {target} HTTP/1.".encode())
    assert outcome.code == 5
