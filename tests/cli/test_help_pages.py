"""`--help` on terminals and in pipes."""

import pytest

from command_line import PROGRAM, run_command, run_on_terminal, strip_styles


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
    start = "Usage: tensor-reshape [OPTIONS] COMMAND [ARGS]...\n\n  Tensor reshape"
    assert run_command("--help").text.startswith(start)
