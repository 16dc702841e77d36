"""The example of a web service: what callers get, right and wrong."""

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from documents import ROOT
from server_processes import ServerProcess

IMAGES = np.arange(24, dtype="<f4")
NOBODY = "127.0.0.1:1"


@contextmanager
def run_service(server: str) -> Iterator[int]:
    """Runs the service until the end of the block, and gives its port."""
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


def call(
    port: int, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text.startswith(b"{") else {"error": text.decode()}
    finally:
        connection.close()


def test_images_go_through_the_model(service: int):
    assert call(service, "/means?shape=2,3,4", IMAGES.tobytes()) == (200, {"means": [5.5, 17.5]})


def test_requests_share_one_client(service: int):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: call(service, "/means?shape=2,-1", IMAGES.tobytes()), range(32)))

    assert answers == [(200, {"means": [5.5, 17.5]})] * 32


def test_a_shape_is_told_without_images(service: int):
    assert call(service, "/shape?shape=5,3,16,16") == (200, {"rows": [5, 768]})


def test_what_the_caller_did_wrong_is_told_with_its_reason(service: int):
    status, answer = call(service, "/means?shape=2,5", IMAGES.tobytes())

    assert (status, answer["reason"]) == (422, "VOLUME_MISMATCH")


@pytest.mark.parametrize(
    ("path", "body", "timeout"),
    [
        ("/means?shape=x", IMAGES.tobytes(), "1"),
        ("/means?shape=2", IMAGES.tobytes()[:-1], "1"),
        ("/shape?shape=" + "1," * 128 + "1", None, "1"),  # what is cut off would be another shape
        ("/shape?shape=2", None, "0"),
        ("/shape?shape=2", None, "nan"),
        ("/shape?shape=2", None, "soon"),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(service: int, path: str, body: bytes | None, timeout: str):
    assert call(service, path, body, {"x-request-timeout": timeout})[0] == 400


def test_a_body_above_the_bound_is_refused(service: int):
    assert call(service, "/means?shape=2", bytes(16 * 1024 * 1024 + 4))[0] == 413


def test_the_callers_deadline_bounds_the_call():
    # The system takes connections to it, and nobody answers.
    with socket.create_server(("127.0.0.1", 0)) as silent, run_service("{}:{}".format(*silent.getsockname())) as port:
        answer = call(port, "/shape?shape=2", None, {"x-request-timeout": "0.3"})

    assert answer == (504, {"error": "the deadline passed"})


def test_a_server_that_is_not_there_is_not_the_callers_fault():
    with run_service(NOBODY) as port:
        answer = call(port, "/shape?shape=2", None, {"x-request-timeout": "0.3"})

    assert answer == (503, {"error": "not available"})
