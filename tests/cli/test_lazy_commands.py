"""The imports of each command, the loading of lazy commands, and `--help` on terminals and in pipes."""

import subprocess
import sys

import pytest

from command_line import PROGRAM, run_command, run_on_terminal, strip_styles
from tensor_reshape.cli.__main__ import COMMANDS

LOCAL = ("infer", "--data", "2,3,4", "--shape", "0,-1", "--special-zero", "--local")
LIST_IMPORTS = """
import sys
from tensor_reshape.cli.__main__ import main
sys.argv = ["tensor-reshape", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    heavy = [name for name in ("grpc", "numpy", "rich", "google.protobuf") if name in sys.modules]
    print(f"{end.code or 0} {heavy}", file=sys.stderr)
"""
# The names of all exec functions in a server process and in its children.
WATCH = """
import sys
def note(event, arguments):
    if event == "os.exec":
        print("exec", file=sys.stderr, flush=True)
sys.addaudithook(note)
from tensor_reshape.cli.__main__ import main
sys.argv = ["tensor-reshape", "serve", "--check-config", "--listen", "127.0.0.1:0"]
main()
"""


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), LOCAL, ("static", "--help"), ("completion", "zsh"), ("compare", "2,3", "6")],
    ids=lambda row: row[0],
)
def test_local_command_imports_neither_grpc_nor_numpy_nor_rich(arguments: tuple[str, ...]):
    assert run_python(LIST_IMPORTS, *arguments).stderr.splitlines()[-1] == "0 []"


def test_serve_help_imports_neither_grpc_nor_numpy():
    outcome = run_python(LIST_IMPORTS, "serve", "--help")
    assert ("grpc" in outcome.stderr, "numpy" in outcome.stderr, "--listen" in outcome.stdout) == (False, False, True)


def test_serve_command_does_not_execute_itself_again():
    outcome = run_python(WATCH)
    assert (outcome.returncode, outcome.stdout, "exec" in outcome.stderr) == (0, "configuration is valid\n", False)


def test_command_summary_is_the_start_of_the_command_help():
    for command in COMMANDS:
        loaded = command.load()
        assert loaded.name == command.name
        assert (loaded.help or "").startswith((command.help or "nothing").rstrip(".")), command.name


def test_command_without_its_extra_prints_the_pip_install_command(monkeypatch: pytest.MonkeyPatch):
    serves = [("serve", "prometheus_client"), ("serve", "pythonjsonlogger")]
    for name, module in (*serves, ("explore", "uvicorn"), ("http", "httptools")):
        for loaded in list(sys.modules):
            if loaded.startswith(("tensor_reshape.server.__main__", "tensor_reshape.server.http.", "uvicorn.")):
                monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, module, None)
        for code, option in ((1, "--some-option"), (0, "--help")):
            outcome = run_command(name, option)
            text = " ".join([*outcome.text.split(), *" ".join(outcome.errors).split()])
            assert (outcome.code, 'pip install "tensor-reshape[' in text) == (code, True), (name, option)


@pytest.mark.parametrize("command", [(), ("infer",), ("serve",)], ids=str)
def test_help_is_formatted_with_colours_on_a_terminal(command: tuple[str, ...]):
    code, text = run_on_terminal(PROGRAM, *command, "--help")
    assert (code, "═ Options" in strip_styles(text)) == (0, True)
    assert "\x1b[1;36m--help" in text


def test_help_fits_the_terminal_and_respects_no_color():
    for columns in (60, 200):
        _, text = run_on_terminal(PROGRAM, "infer", "--help", columns=columns, env={"NO_COLOR": "1"})
        assert max(map(len, strip_styles(text).splitlines())) <= min(columns, 100)
    assert "--special-zero/--no-special-zero" in strip_styles(text)
    assert "\x1b[1;36m" not in text


def test_help_shows_complete_option_names_on_a_narrow_terminal():
    _, text = run_on_terminal(PROGRAM, "infer", "--help", columns=40, env={"NO_COLOR": "1"})
    assert "  --allow-plaintext-token" in text.splitlines()
    assert [line for line in text.splitlines() if len(line) > 40] == []


def test_help_is_plain_text_on_dumb_terminals_and_in_pipes():
    code, text = run_on_terminal(PROGRAM, "infer", "--help", env={"TERM": "dumb"})
    assert (code, text.split()) == (0, run_command("infer", "--help").text.split())
    start = "Usage: tensor-reshape [OPTIONS] COMMAND [ARGS]...\n\n  Start and use a server"
    assert run_command("--help").text.startswith(start)
