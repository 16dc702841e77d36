import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from hypothesis_profiles import QUICK, THOROUGH
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

TESTS = Path(__file__).parent
ROOT = TESTS.parent

MARKS = {
    "machine": ("browsers", "clients", "frameworks", "packaging"),
    "measured": ("attacks", "benchmarks"),
    "repository": ("deploy", "examples", "repository", "verification"),
}
"""Folders whose tests run only with `--all`, or if you name them. pyproject.toml describes the marks."""

SLOW_FIRST = (
    "browsers/test_site_pages.py",
    "packaging/test_environments.py",
    "packaging/test_container.py",
    "clients",
    "packaging",
    "verification/test_hosts.py",
    "e2e/test_workers.py",
    "e2e/test_restarts.py",
    "e2e/test_tracing_tools.py",
    "e2e/test_admission.py",
    "benchmarks/test_suites.py",
    "attacks",  # they measure time, so they run after the environments above are installed
)
"""Files and folders with few, long tests. If they came last, one process would still run when the others are idle."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests of all folders, with many examples")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("hypothesis_profile") is None:
        settings.load_profile(THOROUGH if config.getoption("--all") else QUICK)
    config.pluginmanager.register(FailureNames(config))


class FailureNames:
    """Prints the name of a test as soon as it fails, although the output has only a dot for each test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None and self._config.get_verbosity() <= 0:
            terminal.write(f"\n{report.nodeid} failed ({report.when})\n", red=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Deselects the folders of `MARKS`, unless `--all`, a mark or a path selects them."""
    marked = {TESTS / folder for folders in MARKS.values() for folder in folders}
    if collection_path not in marked or config.getoption("--all") or config.getoption("-m"):
        return None
    paths = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return None if any(path.is_relative_to(collection_path) for path in paths) else True


@pytest.hookimpl(trylast=True)  # after pytest has grouped the tests that share a fixture of the session
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (config.getoption("--all") or config.getoption("-m")):
        _deselect_marked(config, items)
    marks = {TESTS / folder: mark for mark, folders in MARKS.items() for folder in folders}
    ranks = {TESTS / name: rank for rank, name in enumerate(SLOW_FIRST)}
    around = {path: (path, *path.parents) for path in {item.path for item in items}}
    order = {path: min(ranks.get(one, len(ranks)) for one in paths) for path, paths in around.items()}
    for item in items:
        for mark in (marks[folder] for folder in around[item.path] if folder in marks):
            item.add_marker(mark)
    items.sort(key=lambda item: order[item.path])


def _deselect_marked(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects single tests with one of `MARKS` in other folders, unless you name their file."""
    named = {config.invocation_params.dir / argument.partition("::")[0] for argument in config.args}
    left_out = {item for item in items if item.path not in named and any(map(item.get_closest_marker, MARKS))}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@contextmanager
def run_servers() -> Iterator[Callable[..., ServerProcess]]:
    """Starts a server with some flags when a test first needs it. All servers run until the end of the block."""
    with ExitStack() as stack:
        yield cache(lambda *flags, **options: stack.enter_context(run_server(*flags, **options)))


@pytest.fixture(scope="session")
def start_once() -> Iterator[Callable[..., ServerProcess]]:
    """Like `run_servers`, until the end of the session, for servers of many files."""
    with run_servers() as start:
        yield start


@pytest.fixture(scope="module")
def start_for_file() -> Iterator[Callable[..., ServerProcess]]:
    """Like `run_servers`, until the end of the file, because each of many idle servers wakes up 20 times a second."""
    with run_servers() as start:
        yield start


@pytest.fixture(scope="session")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for unix sockets."""
    return tmp_path_factory.mktemp("sockets")


@pytest.fixture(scope="session")
def server(start_once: Callable[..., ServerProcess], sockets: Path) -> ServerProcess:
    """One server for all tests that do not change its state, on TCP and on a unix socket."""
    return start_once(listen=("127.0.0.1:0", f"unix:{sockets}/shared"))


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.address) as client:
        client.wait_until_ready()
        yield client


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces the wait of calls for a server from ten seconds to two. `client/test_retries` tests this wait."""
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 2.0)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as a package index would."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", out, ROOT], check=True)
    return next(out.glob("*.whl"))
