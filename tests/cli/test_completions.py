"""Completion in real shells."""

import os
import shutil
import subprocess

import pytest

from command_line import PROGRAM, run_command


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
