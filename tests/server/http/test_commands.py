"""The commands `tensor-reshape http` and `tensor-reshape explore`."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from browsers import find_port, run_explorer
from command_line import run_module
from http_calls import ANSWER, connect, find_http, post, read_answer, receive_all, request, write_request
from server_processes import ServerProcess, run_server
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.http import commands

EXPLORE = [sys.executable, "-m", "tensor_reshape.cli", "explore"]
TOKEN = "0123456789abcdef" * 2


@contextmanager
def run_http_command(*arguments: str, env: dict[str, str] | None = None) -> Iterator[tuple[ServerProcess, str]]:
    """Runs `tensor-reshape http` until the end of the block, and yields it with its address."""
    with run_server(*arguments, listen=(), command=("tensor_reshape.cli", "http"), env=env) as server:
        yield server, find_http(server)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[ServerProcess, str]]:
    with run_http_command("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--max-calls", "7") as started:
        yield started


def test_http_command_serves_the_api(running: tuple[ServerProcess, str]):
    server, address = running
    assert post(address).document == ANSWER
    (facts,) = server.await_records(1, "serving")
    assert (facts["addresses"], facts["max_calls"]) == (address, 7)


def test_http_command_has_the_metrics_on_both_ports(running: tuple[ServerProcess, str]):
    server, address = running
    (record,) = server.await_records(1, "listening for metrics")
    for one in (address, str(record["address"])):
        reply = request(one, "GET", "/metrics")
        assert (reply.code, b"tensor_reshape_calls_total{" in reply.content) == (200, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_stops_the_http_command_gracefully(number: signal.Signals):
    with run_http_command("--listen", "127.0.0.1:0") as (server, address), connect(address) as connection:
        connection.sendall(write_request(b"", b"Expect: 100-continue", length=2))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        server.process.send_signal(number)
        server.await_records(1, "stopping", cause=number.name)
        connection.sendall(b"{}")
        assert read_answer(connection)[0] == 400
        assert server.wait() == 0
        server.await_records(1, "stopped", cancelled_calls=0)


def test_second_signal_ends_running_requests():
    with run_http_command("--listen", "127.0.0.1:0", "--shutdown-grace-seconds", "3600") as (server, address):
        with connect(address) as connection:
            connection.sendall(write_request(b"", b"Expect: 100-continue", length=2))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
            server.process.send_signal(signal.SIGTERM)
            server.await_records(1, "stopping")
            server.process.send_signal(signal.SIGTERM)
            assert not receive_all(connection).startswith(b"HTTP/1.1 200")
        assert server.wait() == 0
        server.await_records(1, "stopped", cancelled_calls=1)


def test_environment_configures_the_http_command(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"me:{TOKEN}\n")
    variables = {"HTTP_LISTEN": "127.0.0.1:0", "TOKEN_FILE": str(tokens)}
    env = {f"TENSOR_RESHAPE_{name}": value for name, value in variables.items()}
    with run_http_command(env=env) as (_, address):
        assert post(address).code == 401
        assert post(address, headers={"authorization": f"Bearer {TOKEN}"}).document == ANSWER
        assert request(address, "GET", "/metrics").code == 404


def test_http_command_reports_a_used_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = run_module("tensor_reshape.cli", "http", "--listen", address)
    assert (outcome.code, outcome.text) == (1, "")
    assert outcome.errors[-1].startswith(f"Error: cannot listen on {address}: ")


@pytest.mark.parametrize("option", ["--workers", "--health-listen", "--http-listen"])
def test_http_command_has_no_options_of_grpc(option: str):
    outcome = run_module("tensor_reshape.cli", "http", option, "1")
    assert (outcome.code, "No such option" in outcome.errors[-1]) == (2, True)


def test_http_command_rejects_settings_in_conflict():
    outcome = run_module("tensor_reshape.cli", "http", "--memory-budget-bytes", "1KiB")
    assert outcome.code == 1
    assert "but one call in each process may need" in outcome.errors[-1]


def test_environment_has_the_configuration_of_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TENSOR_RESHAPE_HTTP_ALLOW_ORIGIN", "https://a.example https://b.example")
    config, counters, scrape = commands.read_environment()
    assert config.http_allow_origin == ("https://a.example", "https://b.example")
    assert counters.cells
    assert b"tensor_reshape_build" in bytes(scrape().parts[0])


def test_invalid_environment_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TENSOR_RESHAPE_STALL_TIMEOUT_SECONDS", "soon")
    with pytest.raises(ConfigError, match="'soon' is not a valid float"):
        commands.read_environment()


def test_explore_command_serves_the_page_to_local_hosts_only():
    with run_explorer() as link:
        address = f"127.0.0.1:{find_port(link)}"
        with urlopen(link) as page:
            assert page.headers["content-type"].startswith("text/html")
        assert post(address).document == ANSWER
        assert request(address, "GET", "/", headers={"host": "rebound.example"}).code == 421
        assert request(address, "GET", "/", headers={"origin": "http://elsewhere.example"}).code == 403


def test_explore_command_reports_a_used_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run_module("tensor_reshape.cli", "explore", "--no-open", "--port", str(port))
    assert (outcome.code, outcome.text) == (1, "")
    assert outcome.errors[-1].startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")


def test_explore_command_opens_a_browser_and_stops_on_interrupt(tmp_path: Path):
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\nkill -INT {"$PPID"}\n')
    browser.chmod(0o755)
    run = subprocess.run(
        EXPLORE, env={**os.environ, "BROWSER": str(browser)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert seen.read_text() == run.stdout
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("command", ["http", "explore"])
def test_command_names_the_missing_extra(tmp_path: Path, command: str):
    (tmp_path / "httptools.py").write_text("raise ModuleNotFoundError(name='httptools')")
    outcome = run_module("tensor_reshape.cli", command, env={"PYTHONPATH": str(tmp_path)})
    assert outcome.code == 1
    assert f"{command} needs the extra http, because httptools is missing: pip install" in outcome.errors[-1]
