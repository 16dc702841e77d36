"""The commands that call a server, and completion in real shells."""

import json
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from command_line import PROGRAM, SIX, ask, run_command, run_on_terminal, strip_styles
from server_processes import ServerProcess


def test_health_command_prints_serving(server: ServerProcess):
    outcome = ask(server, "health")
    assert (outcome.code, outcome.text, outcome.errors) == (0, "SERVING", [])
    outcome = ask(server, "health", "--service", "", "--json")
    assert (outcome.code, json.loads(outcome.output)) == (0, {"status": "SERVING"})


def test_info_command_prints_version_limits_and_operations(server: ServerProcess):
    outcome = ask(server, "info")
    assert (outcome.code, outcome.errors) == (0, [])
    told = {"max_message_bytes: 16448KiB", "max_tensor_bytes: 1TiB", "  static_reshape:", "    max_rank: 12"}
    assert told | {f"version: {version('tensor-reshape')}"} <= {*outcome.text.splitlines()}
    record = json.loads(ask(server, "info", "--json").output)
    assert (record["max_message_bytes"], record["operations"]["static_reshape"]["max_rank"]) == (16842752, 12)


def test_health_command_lists_known_services_for_an_unknown_one(server: ServerProcess):
    outcome = ask(server, "health", "--service", "nosuch")
    assert (outcome.code, "tensor_reshape.v1.ReshapeService, or '' for" in outcome.errors[-1]) == (1, True)


@pytest.mark.parametrize("columns", [40, 120])
def test_info_command_prints_a_table_on_a_terminal(server: ServerProcess, columns: int):
    code, text = run_on_terminal(PROGRAM, "info", "--server", server.address, columns=columns)
    lines = strip_styles(text).splitlines()
    assert (code, max(map(len, lines)) <= columns) == (0, True)
    assert any(line.startswith("│ max_message_bytes") and "16448KiB" in line for line in lines)
    assert any(line.startswith("│ static_reshape ") for line in lines)
    assert "…" not in text


@pytest.mark.parametrize(("command", "dtype"), [("static", ""), ("dynamic", "i4"), ("reshape", "u1")])
def test_reshape_commands_take_the_target_from_numbers_or_a_file(
    command: str, dtype: str, file: Path, output: Path, server: ServerProcess
):
    np.save(file.with_name("shape.npy"), np.array([3, 2], dtype or "i8"))
    shape = f"@{file.with_name('shape.npy')}" if dtype else "3,-1"
    outcome = ask(server, command, file, "--shape", shape, "--no-special-zero", "-o", output)
    assert (outcome.code, outcome.output) == (0, b"")
    np.testing.assert_array_equal(np.load(output), SIX.reshape(3, 2), strict=True)


def run_shell(*command: str) -> list[str]:
    env = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("stat",), ["static"]),
        (("infer", "--operation", "dyn"), ["dynamic_reshape"]),
        (("static", "--data-type", "bf"), ["bf16"]),
        (("reshape", "--tls-c"), ["--tls-ca", "--tls-certificate"]),
        (("serve", "--log-format", "j"), ["json"]),
    ],
    ids=str,
)
def test_bash_completes_commands_options_and_option_values(words: tuple[str, ...], expected: list[str]):
    typed = " ".join(f"'{word}'" for word in ("tensor-reshape", *words))
    program = f"""eval "$(tensor-reshape completion bash)"
        COMP_WORDS=({typed}); COMP_CWORD={len(words)}; compopt() {{ :; }}
        _tensor_reshape_completion tensor-reshape; echo "${{COMPREPLY[@]}}" """
    assert run_shell("bash", "-c", program) == expected


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_shell_completes_command_names():
    program = 'tensor-reshape completion fish | source; complete --do-complete "tensor-reshape stat"'
    assert run_shell("fish", "--no-config", "-c", program)[0] == "static"


# The functions of zsh's completion system. A test cannot type into its line editor.
ZSH = """
compdef() { : }
_describe() { print -l $completions_with_descriptions }
eval "$(tensor-reshape completion zsh)"
words=(tensor-reshape stat) CURRENT=2
_tensor_reshape_completion
"""


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_shell_completes_command_names():
    assert run_shell("zsh", "-f", "-c", ZSH)[0].startswith("static")


def test_completion_command_prints_a_script_for_each_shell():
    for shell in ("bash", "zsh", "fish"):
        outcome = run_command("completion", shell)
        assert (outcome.code, "_TENSOR_RESHAPE_COMPLETE" in outcome.text) == (0, True), shell
    assert run_command("completion", "csh").code == 2
