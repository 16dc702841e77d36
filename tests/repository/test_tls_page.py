"""What the page on TLS says to do, from nothing to a call, is done as it stands there."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import ROOT, read_blocks
from server_processes import ServerProcess, run_server

PAGE = ROOT / "docs/deployment/tls.md"
MAKE, SERVE, CALL = [block.text for block in read_blocks(PAGE) if block.language == "sh"]
(CONNECT,) = [block.text for block in read_blocks(PAGE) if block.language == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files that the first commands make."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["sh", "-e", "-c", MAKE], cwd=folder, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def tls_server(folder: Path) -> Iterator[ServerProcess]:
    """The server that the page starts, on a free port."""
    program, command, *options = shlex.split(SERVE)
    assert (program, command) == ("tensor-reshape", "serve")
    files = [word if word.startswith("--") else str(folder / word) for word in options]
    with run_server(*files) as server:
        yield server


def call(server: ServerProcess, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TENSOR_RESHAPE_SERVER": f"localhost:{server.address.rpartition(':')[2]}"}
    return subprocess.run(["sh", "-e", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_command_calls_the_server(tls_server: ServerProcess, folder: Path):
    done = call(tls_server, folder, CALL)

    assert (done.stdout, done.stderr) == ("SERVING\n", "")


def test_a_call_without_a_certificate_is_not_answered(tls_server: ServerProcess, folder: Path):
    done = call(tls_server, folder, "tensor-reshape health --timeout 2 --tls-ca authority.pem")

    assert done.returncode == 5


def test_the_python_code_connects(tls_server: ServerProcess, folder: Path):
    port = tls_server.address.rpartition(":")[2]
    use = f"with connect('localhost:{port}', Path('.')) as client: print(client.check_health().name)"
    done = subprocess.run(
        [sys.executable, "-c", f"{CONNECT}\n{use}"], cwd=folder, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("SERVING\n", "")
