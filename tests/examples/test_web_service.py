"""The example of a web service: its responses to valid and invalid requests."""

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from documents import ROOT
from server_processes import ServerProcess

IMAGES = np.arange(24, dtype="<f4").tobytes()
LARGEST_BYTES = 16 * 1024 * 1024


@contextmanager
def run_service(server: str) -> Iterator[int]:
    """Runs the service until the end of the block, and yields its port."""
    command = (sys.executable, ROOT / "examples/web_service.py", server, "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            running = next(line for line in process.stderr if "running on" in line)
            yield int(re.findall(r":(\d+) ", running)[0])
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def service(server: ServerProcess) -> Iterator[int]:
    with run_service(server.address) as port:
        yield port


def call(port: int, path: str, body: bytes | None = None, timeout: str = "") -> tuple[int, dict[str, object]]:
    headers = {"x-request-timeout": timeout} if timeout else {}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text.startswith(b"{") else {"error": text.decode()}
    finally:
        connection.close()


def test_web_service_example_serves_images_and_shapes(service: int):
    assert call(service, "/means?shape=2,3,4", IMAGES) == (200, {"means": [5.5, 17.5]})
    assert call(service, "/shape?shape=5,3,16,16") == (200, {"rows": [5, 768]})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: call(service, "/means?shape=2,-1", IMAGES), range(32)))
    assert answers == [(200, {"means": [5.5, 17.5]})] * 32


def test_web_service_example_returns_the_reason_of_a_rejection(service: int):
    status, answer = call(service, "/means?shape=2,5", IMAGES)

    assert (status, answer["reason"]) == (422, "VOLUME_MISMATCH")


@pytest.mark.parametrize(
    ("path", "body", "timeout", "status"),
    [
        ("/means?shape=x", IMAGES, "1", 400),
        ("/means?shape=2", IMAGES[:-1], "1", 400),
        ("/means?shape=2", bytes(LARGEST_BYTES + 4), "1", 413),
        ("/shape?shape=" + "1," * 128 + "1", None, "1", 400),  # a truncated text would be another shape
        ("/shape?shape=2", None, "0", 400),
        ("/shape?shape=2", None, "nan", 400),
        ("/shape?shape=2", None, "soon", 400),
    ],
)
def test_web_service_example_rejects_invalid_http_requests(
    service: int, path: str, body: bytes | None, timeout: str, status: int
):
    assert call(service, path, body, timeout)[0] == status


def test_web_service_example_distinguishes_timeout_and_unavailable_server():
    # On the first port, the system accepts connections, but no program responds. Nothing listens on the second one.
    with socket.create_server(("127.0.0.1", 0)) as silent, run_service("{}:{}".format(*silent.getsockname())) as port:
        assert call(port, "/shape?shape=2", timeout="0.3") == (504, {"error": "the deadline passed"})
    with run_service("127.0.0.1:1") as port:
        assert call(port, "/shape?shape=2", timeout="0.3") == (503, {"error": "not available"})
