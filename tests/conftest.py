import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

ROOT = Path(__file__).parent.parent
SERVINGS = ("inline", "threads")
SERVED_BOTH_WAYS = {"e2e", "attacks"}
SERVED_ONE_WAY = {
    "test_command_line.py",
    "test_command_line_infer.py",
    "test_digits.py",
    "test_huge.py",
}  # slow, or of the caller's side


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "how the shared servers serve; both: the tests in e2e and attacks run with each"
    parser.addoption("--serving", choices=[*SERVINGS, "both"], default="both", help=text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "serving" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("serving")
    path = metafunc.definition.path
    if chosen == "both" and path.parent.name in SERVED_BOTH_WAYS and path.name not in SERVED_ONE_WAY:
        metafunc.parametrize("serving", SERVINGS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def serving(request: pytest.FixtureRequest) -> str:
    """How the servers of a test serve, in the words of `--serving`."""
    chosen = request.config.getoption("serving")
    return getattr(request, "param", SERVINGS[0] if chosen == "both" else chosen)


@pytest.fixture(scope="session")
def server(serving: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that only ask: on TCP, and on a unix socket."""
    socket = tmp_path_factory.mktemp("sockets") / "server.sock"
    with run_server("--serving", serving, listen=("127.0.0.1:0", f"unix:{socket}")) as process:
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
