"""`use_fast_polling`, each time in a separate interpreter."""

import os
import subprocess
import sys

import pytest

from tensor_reshape.client.experiments import _EXPERIMENTS as EXPERIMENTS

VARIABLE = "GRPC_EXPERIMENTS"
# Prints the environment at the time when the compiled part of grpcio is imported.
WATCH = f"""
import importlib.metadata, os, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "grpc._cython.cygrpc":
            print(os.environ.get({VARIABLE!r}))

sys.meta_path.insert(0, Finder())
"""
PRETEND = "importlib.metadata.version = lambda name: {version!r}"
TRIED = PRETEND.format(version="1.85.1")  # independent of the installed version
SWITCH = "from tensor_reshape.client import use_fast_polling\nprint(use_fast_polling())"
CALL_NOBODY = """
import grpc
try:
    grpc.insecure_channel("127.0.0.1:1").unary_unary("/nobody/Serves")(b"")
except grpc.RpcError:
    pass
"""
SECONDS = 120
UNKNOWN = "Unknown experiment"


def run(*lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program without the variable for experiments, unless `variables` sets it."""
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
    """Returns the output of a program, which begins with the environment that grpc found."""
    return run(WATCH, *lines, **environment).stdout.splitlines()


def test_use_fast_polling_leaves_no_environment_variable_for_child_processes():
    assert watch(TRIED, SWITCH, f"print({VARIABLE!r} in os.environ)")[-1] == "False"


def test_use_fast_polling_leaves_no_environment_variable_without_grpc():
    fail = f"try: {SWITCH.splitlines()[0]}; use_fast_polling()\nexcept ImportError: print({VARIABLE!r} in os.environ)"
    assert watch(TRIED, "sys.modules['grpc._compression'] = None", fail)[-1] == "False"


@pytest.mark.parametrize("first", ["import grpc", "from tensor_reshape.client import Client"])
def test_use_fast_polling_raises_if_grpc_is_already_imported(first: str):
    late = f"try: {SWITCH.splitlines()[0]}; use_fast_polling()\nexcept RuntimeError as error: print(error)"
    written = watch(TRIED, first, late)
    assert written[0] == "None"
    assert "grpc is already imported" in written[1]


@pytest.mark.parametrize("value", ["", "event_engine_client"])
def test_use_fast_polling_respects_grpc_experiments_set_by_the_user(value: str):
    lines = watch(TRIED, SWITCH, "import grpc", f"print(os.environ[{VARIABLE!r}])", **{VARIABLE: value})
    assert lines == ["False", value, value]


@pytest.mark.parametrize(
    ("version", "is_tried"),
    [("1.85.0rc1", True), ("1.8.5", False), ("1.84.2", False), ("1.86.0", False), ("unknown", False)],
)
def test_use_fast_polling_affects_only_tested_grpcio_releases(version: str, is_tried: bool):
    assert (watch(PRETEND.format(version=version), SWITCH) == [EXPERIMENTS, "True"]) is is_tried


def test_grpc_core_knows_the_disabled_experiment():
    assert UNKNOWN not in run(SWITCH, CALL_NOBODY).stderr


def test_grpc_core_reads_its_experiments_variable_on_import():
    # grpcio logs unknown experiments, so the variable may be removed before the first channel is made.
    forget = f"import grpc, os\ndel os.environ[{VARIABLE!r}]"
    assert UNKNOWN in run(forget, CALL_NOBODY, **{VARIABLE: "-nobody_knows_it"}).stderr


def test_command_line_enables_fast_polling_in_its_process():
    ask = "from tensor_reshape.cli.__main__ import main\ntry: main()\nexcept SystemExit: pass"
    words = "sys.argv[1:] = ['health', '--server', '127.0.0.1:1', '--timeout', '0.1']"
    assert watch(TRIED, words, ask)[0] == EXPERIMENTS
