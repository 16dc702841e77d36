"""A process that serves HTTP: its start, its stop, and what it imports."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from http_calls import ANSWER, QUESTION, connect, post, request
from http_servers import CONFIG
from in_process import ANY_PORT, WAIT_SECONDS
from tensor_reshape.server.config import Config
from tensor_reshape.server.http import servers
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.servers import HttpServer
from tensor_reshape.server.process.listeners import hold
from waits import await_that


@contextmanager
def run(config: Config = CONFIG) -> Iterator[HttpServer]:
    server = HttpServer(config)
    server.start()
    try:
        yield server
    finally:
        stop(server)


def stop(server: HttpServer) -> None:
    hurry = threading.Event()
    hurry.set()
    server.stop(hurry)


def can_connect(address: str) -> bool:
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return False
    return True


def test_stopped_server_is_not_ready_but_serves_during_the_drain_period():
    with run(replace(CONFIG, drain_seconds=3600)) as server:
        hurry = threading.Event()
        stopping = threading.Thread(target=server.stop, args=(hurry,))
        stopping.start()
        await_that(lambda: request(server.address, "GET", "/readyz").code == 503)
        assert request(server.address, "GET", "/healthz").code == 200
        assert post(server.address).document == ANSWER
        hurry.set()
        stopping.join(WAIT_SECONDS)
        assert not stopping.is_alive()
        assert not can_connect(server.address)


def test_running_server_sends_heartbeats(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "_BEAT_SECONDS", 0.001)
    server, beats = HttpServer(CONFIG), threading.Semaphore(0)
    server.beat(beats.release)
    assert not beats.acquire(blocking=False)
    server.start()
    for _ in range(3):
        assert beats.acquire(timeout=WAIT_SECONDS)
    stop(server)


def test_process_serves_an_address_that_its_supervisor_has_reserved():
    with hold(ANY_PORT) as address:
        server = HttpServer(replace(CONFIG, http_listen=address), shares_ports=True)
        server.start()
        assert server.address == address
        assert post(address).document == ANSWER
        stop(server)


@pytest.mark.parametrize("hurries", [False, True])
def test_application_ends_once(hurries: bool, monkeypatch: pytest.MonkeyPatch):
    ends: list[None] = []
    end = Application.end
    monkeypatch.setattr(Application, "end", lambda app: ends.append(end(app)))
    server, hurry = HttpServer(CONFIG), threading.Event()
    server.start()
    assert post(server.address).document == ANSWER
    if hurries:
        hurry.set()
    server.stop(hurry)
    assert len(ends) == 1


SCRIPT = f"""
import sys, threading, urllib.request
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.servers import HttpServer

server = HttpServer(Config(http_listen="{ANY_PORT}", drain_seconds=0))
server.start()
headers = {{"content-type": "application/json"}}
link = f"http://{{server.address}}/tensor_reshape.v1.ReshapeService/InferShape"
body = b'{json.dumps(QUESTION)}'
with urllib.request.urlopen(urllib.request.Request(link, body, headers)) as response:
    assert response.status == 200
server.stop(threading.Event())
print(*(name for name in ("grpc", "starlette", "h11", "numpy", "tensor_reshape.server.engine") if name in sys.modules))
"""


def test_process_for_http_imports_neither_grpc_nor_the_engine():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")


def test_import_of_the_package_imports_no_server():
    script = "import sys, tensor_reshape.server.http; print('uvicorn' in sys.modules, 'google.protobuf' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "False False"
