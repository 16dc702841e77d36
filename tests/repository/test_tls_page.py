"""The commands and the code of the page on TLS make certificates, start a server and call it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import ROOT, read_blocks, read_prose
from server_processes import run_server
from tensor_reshape.client import connections

PAGE = ROOT / "docs/deployment/tls.md"
MAKE, SERVE, CALL = [block.text for block in read_blocks(PAGE) if block.language == "sh"]
MESSAGE_WORDS = 4
(CONNECT,) = [block.text for block in read_blocks(PAGE) if block.language == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files that the first block makes."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["sh", "-e", "-c", MAKE], cwd=folder, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of the server of the page, on a free port."""
    program, command, *options = shlex.split(SERVE)
    assert (program, command) == ("tensor-reshape", "serve")
    with run_server(*(word if word.startswith("--") else str(folder / word) for word in options)) as server:
        yield f"localhost:{server.address.rpartition(':')[2]}"


def run(folder: Path, address: str, *command: str) -> tuple[int, str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TENSOR_RESHAPE_SERVER": address}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_documented_tls_command_and_code_connect(folder: Path, address: str):
    use = f"with connect('{address}', Path('.')) as client: print(client.check_health().name)"

    assert run(folder, address, "sh", "-e", "-c", CALL) == (0, "SERVING\n", "")
    assert run(folder, address, sys.executable, "-c", f"{CONNECT}\n{use}") == (0, "SERVING\n", "")


def test_pages_list_the_messages_of_connection_errors():
    texts = [read_prose(PAGE), read_prose(ROOT / "docs/troubleshooting.md")]
    shown = [span for text in texts for span in re.findall(r"`([^`]+)`", text) if len(span.split()) >= MESSAGE_WORDS]
    messages = [explanation.format(target="...", address="") for explanation in connections._CAUSES.values()]

    assert [message for message in messages if not message.startswith(tuple(shown))] == []


def test_documented_mtls_server_rejects_a_call_without_a_certificate(folder: Path, address: str):
    code, _, _ = run(folder, address, "tensor-reshape", "health", "--timeout", "2", "--tls-ca", "authority.pem")

    assert code == 5
