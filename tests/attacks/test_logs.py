"""Logs that are not read, cannot be written, or that a client tries to fill or forge."""

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack_payloads import FORGED_GOAWAY
from certificates import issue_certificates
from http2 import HEALTH_CHECK, Connection
from meters import list_ports
from plain_requests import STATIC_RESHAPE, build_static_request
from server_processes import STOP_SECONDS, run_server
from tensor_reshape.client import Client
from waits import await_that

NOT_TLS = (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05aaaaa", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\xff" * 500)


@pytest.fixture(params=["unread pipe", "lost pipe", "full disk"])
def stderr(request: pytest.FixtureRequest) -> Iterator[int]:
    """A standard error that accepts no bytes, or only a few."""
    if request.param == "full disk":
        writer = os.open("/dev/full", os.O_WRONLY)
        yield writer
        os.close(writer)
        return
    reader, writer = os.pipe()
    if request.param == "lost pipe":
        os.close(reader)
    yield writer
    os.close(writer)
    if request.param == "unread pipe":
        os.close(reader)


def test_blocked_log_output_does_not_delay_calls(stderr: int):
    flags = ("--listen", "127.0.0.1:0", "--drain-seconds", "0", "--log-level", "debug")
    with subprocess.Popen([sys.executable, "-m", "tensor_reshape.server", *flags], stderr=stderr) as process:
        try:
            await_that(lambda: bool(list_ports(process.pid)), pause_seconds=0.05)
            with Connection(f"127.0.0.1:{list_ports(process.pid)[0]}") as connection:
                for _ in range(2000):  # one line each, twice as many as the pipe and the queue hold
                    assert connection.call(STATIC_RESHAPE, b"\xff").status == "3"
                assert connection.call(STATIC_RESHAPE, build_static_request()).is_ok
            began = time.monotonic()
            process.terminate()
            assert (process.wait(STOP_SECONDS), time.monotonic() - began < 15) == (0, True)
        finally:
            process.kill()


def test_failed_handshakes_write_no_log_lines(tmp_path: Path):
    files = issue_certificates(tmp_path)
    with run_server(*files.flags) as server:
        host, _, port = server.address.rpartition(":")
        for content in NOT_TLS * 5:
            with socket.create_connection((host, int(port)), 5) as connection:
                connection.sendall(content)
        with socket.create_connection((host, int(port)), 5) as connection, pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")
        with Client(f"localhost:{port}", credentials=files.trust) as client:
            client.check_health()
        assert server.stop() == 0
    messages = [record["message"] for record in server.records]
    assert messages == ["listening", "serving", "stopping", "stopped"], server.records


def test_client_cannot_forge_log_lines():
    with run_server() as server:
        with Connection(server.address) as connection:
            connection.send(FORGED_GOAWAY)
            assert connection.call(HEALTH_CHECK, b"").status in {"0", "CLOSED"}
        server.stop()

    assert [record for record in server.records if "forged" in record["message"]] == []
