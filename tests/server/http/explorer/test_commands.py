"""`tensor-reshape explore`: the page without a server."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx
import pytest

from browsers import find_port, run_explorer
from command_line import run_module
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.http.apps import MethodApp
from tensor_reshape.server.http.explorer.commands import _listen, serve_call
from tensor_reshape.server.service.method_tables import IsOver, Method

COMMAND = [sys.executable, "-m", "tensor_reshape.cli", "explore"]


def find_code(link: str, **headers: str) -> int:
    """Returns the status of a rejected request."""
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(link, headers=headers))
    with caught.value as error:
        return error.code


def compute(message: bytes, _is_over: IsOver) -> bytes:
    if message == b"bug":
        text = "secret"
        raise ValueError(text)
    if message == b"wrong":
        raise InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, "text", "field")
    return json.dumps(message.decode()).encode()


async def test_explorer_app_runs_without_a_grpc_server():
    app = MethodApp(Method("/a/b", compute, lambda _message: None), serve_call)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        assert (await client.get("/?x=%201")).json() == "x=%201"
        for query, code in (("bug", 500), ("wrong", 400)):
            rejection = await client.get(f"/?{query}")
            assert rejection.status_code == code
            assert "secret" not in rejection.text


def test_explore_command_serves_only_local_hosts_and_reports_used_ports():
    with run_explorer() as link:
        port = find_port(link)
        with urlopen(f"{link}explore/answer?data=2,3&shape=-1&special_zero=true") as answer:
            assert json.load(answer)["answer"]["text"] == "[6]"
        assert find_code(link, Host=f"rebound.example:{port}") == 421
        assert find_code(f"{link}explore/answer", Origin="http://elsewhere.example") == 403
        outcome = run_module("tensor_reshape.cli", "explore", "--no-open", "--port", str(port))
    assert (outcome.code, outcome.text) == (1, "")
    assert outcome.errors[-1].startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")


def test_explorer_listener_sets_tcp_nodelay():
    with _listen(0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_explore_command_opens_a_browser_and_stops_on_interrupt(tmp_path: Path):
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\nkill -INT {"$PPID"}\n')
    browser.chmod(0o755)
    run = subprocess.run(
        COMMAND, env={**os.environ, "BROWSER": str(browser)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert seen.read_text() == run.stdout
    assert (run.returncode, run.stderr) == (0, "")


def test_explore_command_names_the_missing_extra(tmp_path: Path):
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    outcome = run_module("tensor_reshape.cli", "explore", "--no-open", env={"PYTHONPATH": str(tmp_path)})
    assert outcome.code == 1
    assert "explore needs the extra http, because starlette is missing: pip install" in outcome.errors[-1]

    script = "import sys, tensor_reshape.server.http.explorer.commands; print('prometheus_client' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "False"
