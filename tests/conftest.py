import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that only ask: on TCP, and on a unix socket."""
    socket = tmp_path_factory.mktemp("sockets") / "server.sock"
    with run_server(listen=("127.0.0.1:0", f"unix:{socket}")) as process:
        yield process


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.address) as client:
        client.wait_until_ready()
        yield client


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as a package index would."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", out, ROOT], check=True)
    return next(out.glob("*.whl"))
