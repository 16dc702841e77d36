"""Which experiments of gRPC's core a process takes part in that imports the SDK; each in an interpreter of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server_processes import run_server
from tensor_reshape.client.experiments import _EXPERIMENTS as EXPERIMENTS

VARIABLE = "GRPC_EXPERIMENTS"
# Has something said at the moment when a module is looked for, which it finds nowhere.
FINDER = """
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            print({value})

sys.meta_path.insert(0, Finder())
"""
# What the environment says when the compiled part of grpcio is looked for.
WATCH = "import importlib.metadata, os, sys" + FINDER.format(
    module="grpc._cython.cygrpc", value=f"os.environ.get({VARIABLE!r})"
)
PRETEND = "importlib.metadata.version = lambda name: {version!r}"
TRIED = PRETEND.format(version="1.85.1")  # whichever is installed
IMPORT_SDK = "import tensor_reshape.client"
IMPORT_BOTH = f"{IMPORT_SDK}\nimport grpc"
CALL_NOBODY = """
try:
    grpc.insecure_channel("127.0.0.1:1").unary_unary("/nobody/Serves")(b"")
except grpc.RpcError:
    pass
"""
SECONDS = 60
UNKNOWN = "Unknown experiment"


def run(*lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program; its environment names no experiments unless it is told to."""
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
        env={**inherited, **environment},
    )


def watch(*lines: str, **environment: str) -> list[str]:
    """Returns what a program printed, what grpc found in the environment first."""
    return run(WATCH, *lines, **environment).stdout.splitlines()


@pytest.mark.parametrize("module", ["client", "client.errors"])
def test_whoever_imports_the_sdk_first_takes_part(module: str):
    assert watch(TRIED, f"import tensor_reshape.{module}", "import grpc") == [EXPERIMENTS]


@pytest.mark.parametrize("name", ["client.Client", "client.AsyncClient", "testing.FakeClient"])
def test_a_client_that_is_named_takes_part(name: str):
    module, _, kind = name.partition(".")
    assert watch(TRIED, f"from tensor_reshape.{module} import {kind}") == [EXPERIMENTS]


def test_the_sdk_alone_does_not_import_grpc():
    assert watch(TRIED, IMPORT_SDK) == []


def test_grpc_looks_as_if_nobody_had_been_in_between():
    names = "grpc.__loader__ is grpc.__spec__.loader, type(grpc.__loader__).__name__"
    assert watch(TRIED, IMPORT_BOTH, f"print({names})")[-1] == "True SourceFileLoader"


def test_whoever_looks_for_grpc_before_it_is_imported_finds_it_and_changes_nothing():
    look = "found = importlib.util.find_spec('grpc').loader"
    report = "print(copy.deepcopy(found).get_filename('grpc') == found.get_filename('grpc') == grpc.__file__)"
    lines = IMPORT_SDK, "import copy, importlib.util", look, "import grpc", report
    assert watch(TRIED, *lines) == [EXPERIMENTS, "True"]


def test_a_package_that_is_loaded_again_looks_for_grpc_once():
    again = f"{IMPORT_SDK}, importlib\nimportlib.reload(tensor_reshape.client)"
    left = "print(len([finder for finder in sys.meta_path if 'tensor_reshape' in type(finder).__module__]))"
    reload = "importlib.reload(grpc)"
    assert watch(TRIED, again, left, "import grpc", reload) == ["1", EXPERIMENTS]


def test_finders_that_ask_each_other_find_grpc():
    finder = """
class Asking:  # as those are that call hooks after an import
    asked = False

    def find_spec(self, name, path, target=None):
        if name != "grpc" or self.asked:
            return None
        self.asked = True
        return importlib.util.find_spec(name)
"""
    add = "sys.meta_path.insert(1, Asking())"
    assert watch(TRIED, finder, IMPORT_SDK, add, "import grpc") == [EXPERIMENTS]


def test_what_is_set_is_taken_away_again():
    assert watch(TRIED, IMPORT_BOTH, f"print({VARIABLE!r} in os.environ)") == [EXPERIMENTS, "False"]


def test_it_is_taken_away_also_where_grpc_cannot_be_imported():
    fail = "sys.modules['grpc._compression'] = None"
    report = f"{IMPORT_SDK}\ntry: import grpc\nexcept ImportError: print({VARIABLE!r} in os.environ)"
    assert watch(TRIED, fail, report)[-1] == "False"


def test_whoever_clears_the_environment_meanwhile_is_no_error():
    clear = FINDER.format(module="grpc._compression", value=f"os.environ.pop({VARIABLE!r})")
    assert watch(TRIED, clear, IMPORT_BOTH, "print('imported')")[::2] == [EXPERIMENTS, "imported"]


def test_what_the_environment_says_in_between_counts_too():
    later = f"os.environ[{VARIABLE!r}] = ''"
    assert watch(TRIED, IMPORT_SDK, later, "import grpc") == [""]


def test_whoever_has_imported_grpc_is_left_alone():
    left = "print(len([finder for finder in sys.meta_path if 'tensor_reshape' in type(finder).__module__]))"
    assert watch(TRIED, "import grpc", IMPORT_SDK, left) == ["None", "0"]


@pytest.mark.parametrize("value", ["", "event_engine_client"])
def test_what_the_environment_says_is_left_alone(value: str):
    lines = watch(TRIED, IMPORT_BOTH, f"print(os.environ[{VARIABLE!r}])", **{VARIABLE: value})
    assert lines == [value, value]


@pytest.mark.parametrize("version", ["1.85.0", "1.85.1", "1.85.0rc1"])
def test_a_release_that_was_tried_takes_part(version: str):
    assert watch(PRETEND.format(version=version), IMPORT_BOTH) == [EXPERIMENTS]


@pytest.mark.parametrize("version", ["1.8.5", "1.84.2", "1.86.0", "1.86.0.dev0", "1.850.0", "2.85.0", "unknown"])
def test_a_release_that_was_not_tried_is_left_alone(version: str):
    assert watch(PRETEND.format(version=version), IMPORT_BOTH) == ["None"]


def test_grpc_without_a_release_is_left_alone():
    lines = (
        "def find(name): raise importlib.metadata.PackageNotFoundError(name)",
        "importlib.metadata.version = find",
    )
    assert watch(*lines, IMPORT_BOTH) == ["None"]


def test_the_installed_core_knows_the_experiment():
    assert UNKNOWN not in run(IMPORT_SDK, "import grpc", CALL_NOBODY).stderr


def test_the_core_reads_the_variable_when_grpc_is_imported():
    # What it does not know, it says: so the variable need not be there any longer when the first channel is made.
    forget = f"import grpc, os\ndel os.environ[{VARIABLE!r}]"
    assert UNKNOWN in run(forget, CALL_NOBODY, **{VARIABLE: "-nobody_knows_it"}).stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_server_that_the_command_line_starts_inherits_nothing():
    with run_server(command=("tensor_reshape.cli", "serve")) as server:
        environment = Path(f"/proc/{server.process.pid}/environ").read_bytes()
        assert EXPERIMENTS.encode() not in environment
