import gc
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

ROOT = Path(__file__).parent.parent
SERVINGS = ("inline", "threads")
SERVED_BOTH_WAYS = {"e2e", "attacks"}
SERVED_ONE_WAY = {"test_digits.py", "test_huge.py"}  # slow, or of the caller's side


LONGEST_FIRST = (
    "packaging/test_environments.py",
    "packaging/test_container.py",
    "clients",  # they wait for package managers, as do the rest of:
    "packaging",
    "verification/test_hosts.py",
    "e2e/test_workers.py",
    "e2e/test_restarts.py",
    "e2e/test_instrumentation.py",
    "e2e/test_admission.py",
    "benchmarks/test_suites.py",
    # What others notice of an attack is measured: these come when the environments above are no longer installed.
    "attacks/test_health.py",
    "attacks/test_exhaustion.py",
    "attacks/test_quick_workers.py",
    "attacks/test_quick_costs.py",
    "attacks/test_quick_floods.py",
    "attacks/test_quick_silence.py",
    "attacks/test_random_frames.py",
    "attacks/test_connections.py",
    "attacks/test_rolling.py",
)
"""Files, or folders, of few tests that take long: what came last would keep one process busy when others have ended."""

# Where the same tests run again, beside other releases of what the project stands on: `--hypothesis-profile few`.
settings.register_profile("few", max_examples=20)


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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Each process makes 13,000 tests, which all stay: to look for garbage among them takes a fifth of the time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)  # after pytest has put together what shares a fixture of the session
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: min(ranks.get(path, len(ranks)) for path in (item.path, *item.path.parents)))


@pytest.fixture(scope="session")
def serving(request: pytest.FixtureRequest) -> str:
    """How the servers of a test serve, in the words of `--serving`."""
    chosen = request.config.getoption("serving")
    return getattr(request, "param", SERVINGS[0] if chosen == "both" else chosen)


@contextmanager
def run_servers() -> Iterator[Callable[..., ServerProcess]]:
    """Starts a server with some flags the first time that it is asked for; all run until the end of the block."""
    with ExitStack() as stack:
        yield cache(lambda *flags, **options: stack.enter_context(run_server(*flags, **options)))


@pytest.fixture(scope="session")
def start_once() -> Iterator[Callable[..., ServerProcess]]:
    """As `run_servers`, until the session ends: for servers of many files.

    Each file is run with one way of serving and then with the other. A fixture of the session is torn down in between,
    so without this each file would start its servers anew.
    """
    with run_servers() as start:
        yield start


@pytest.fixture(scope="module")
def start_for_file() -> Iterator[Callable[..., ServerProcess]]:
    """As `run_servers`, until the file ends: a server wakes up 20 times a second, and dozens would go on doing so."""
    with run_servers() as start:
        yield start


@pytest.fixture(scope="session")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for unix sockets."""
    return tmp_path_factory.mktemp("sockets")


@pytest.fixture(scope="session")
def server(serving: str, start_once: Callable[..., ServerProcess], sockets: Path) -> ServerProcess:
    """One server for all tests that only ask: on TCP, and on a unix socket."""
    return start_once("--serving", serving, listen=("127.0.0.1:0", f"unix:{sockets / serving}"))


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.address) as client:
        client.wait_until_ready()
        yield client


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has calls of this process wait two seconds for a server, not ten; `client/test_retries` tests how they wait."""
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 2.0)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as a package index would."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", out, ROOT], check=True)
    return next(out.glob("*.whl"))
