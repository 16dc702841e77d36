"""`tensor-reshape explore`: the page without a server."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from browsers import find_port, run_explorer
from command_line import run_module
from tensor_reshape.server.http.explorer.commands import _listen

COMMAND = [sys.executable, "-m", "tensor_reshape.cli", "explore"]


def find_code(link: str, **headers: str) -> int:
    """Returns the status of a refused request."""
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(link, headers=headers))
    with caught.value as error:
        return error.code


def test_the_page_is_on_this_machine_alone():
    with run_explorer() as link:
        with urlopen(f"{link}explore/answer?data=2,3&shape=-1&special_zero=true") as answer:
            assert json.load(answer)["answer"]["text"] == "[6]"
        assert find_code(link, Host=f"rebound.example:{find_port(link)}") == 421
        assert find_code(f"{link}explore/answer", Origin="http://elsewhere.example") == 403


def test_a_port_can_be_chosen_and_one_that_is_taken_is_said():
    with run_explorer() as link:
        outcome = run_module("tensor_reshape.cli", "explore", "--no-open", "--port", str(find_port(link)))
    assert (outcome.code, outcome.text) == (1, "")
    assert outcome.errors[-1].startswith(f"Error: cannot listen on 127.0.0.1:{find_port(link)}: ")


def test_no_answer_waits_for_an_acknowledgement():
    with _listen(0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_browser_is_opened_at_the_link(tmp_path: Path):
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\nkill -INT {"$PPID"}\n')
    browser.chmod(0o755)
    run = subprocess.run(
        COMMAND, env={"BROWSER": str(browser)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert seen.read_text() == run.stdout
    assert (run.returncode, run.stderr) == (0, "")


def test_no_server_of_grpc_is_started():
    script = (
        "import sys; import tensor_reshape.server.http.explorer.commands; print('prometheus_client' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "False"


def test_a_missing_extra_says_what_to_install(tmp_path: Path):
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    outcome = run_module("tensor_reshape.cli", "explore", "--no-open", env={"PYTHONPATH": str(tmp_path)})
    assert outcome.code == 1
    assert outcome.errors[-1].endswith("pip install 'tensor-reshape[http]' (missing: starlette)")


def test_it_ends_at_once_when_it_is_told():
    process = subprocess.Popen([*COMMAND, "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with urlopen(process.stdout.readline().strip()) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert errors == ""
