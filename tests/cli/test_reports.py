"""What is said of a command that failed."""

import json
import os
import sys
from pathlib import Path

import pytest

from tensor_reshape.cli.reports import choose_exit_code, underline
from tensor_reshape.client import CallTimeoutError, UnavailableError
from terminals import run_on_terminal, strip_styles

PROGRAM = Path(sys.executable).parent / "tensor-reshape"
PLAIN = {"NO_COLOR": "1"}
LOCAL = ("--no-special-zero", "--local")


def draw(*arguments: str | Path, columns: int = 100) -> tuple[int, list[str]]:
    code, text = run_on_terminal(PROGRAM, *arguments, columns=columns, env=PLAIN)
    return code, [line.rstrip() for line in strip_styles(text).splitlines()]


def test_the_item_to_blame_is_underlined_as_it_was_typed():
    code, lines = draw("infer", "--data", "2,3", "--shape", "4, -1", *LOCAL)
    shown = lines.index("  --shape 4, -1")
    assert (code, lines[shown + 1]) == (3, "             ^^")


def test_a_dim_of_the_data_that_cannot_be_read_is_underlined():
    code, lines = draw("infer", "--data", "2,3,N*!", "--shape", "6", *LOCAL)
    shown = lines.index("  --data 2,3,N*!")
    assert (code, lines[shown + 1]) == (2, "             ^^^")


def test_the_shape_that_was_expected_is_underlined():
    code, lines = draw("infer", "--data", "2,3", "--shape", "6", "--expect", "7", *LOCAL)
    shown = lines.index("  --expect 7")
    assert (code, lines[shown + 1]) == (3, "           ^")


def test_what_would_have_been_accepted_is_shown():
    code, lines = draw("infer", "--data", "10", "--shape", "4,-1", *LOCAL)
    assert (code, "the nearest are 2 and 5" in " ".join(lines)) == (3, True)


def test_an_error_without_an_item_is_a_line():
    code, lines = draw("health", "--server", "127.0.0.1:1", "--timeout", "0.3")
    assert (code, lines[0].startswith("Error: ")) == (5, True)


def test_the_help_of_a_bare_command_is_no_error():
    code, lines = draw()
    assert (code, any(line.startswith("Error") for line in lines)) == (2, False)


def test_nothing_is_drawn_where_json_is_asked_for():
    code, lines = draw("infer", "--data", "2,3", "--shape", "4,-1", *LOCAL, "--json", columns=1000)
    assert (code, len(lines), lines[0][0]) == (3, 1, "{")


def test_a_refused_line_of_a_batch_is_named_by_its_file_and_number(tmp_path: Path):
    batch = tmp_path / "questions.jsonl"
    batch.write_text(
        '{"data": [6], "shape": [6], "special_zero": true}\n{"data": [7], "shape": [8], "special_zero": true}\n'
    )
    with Path(os.devnull).open("w") as nowhere:
        code, text = run_on_terminal(
            PROGRAM, "infer", "--batch", batch, "--local", columns=400, env=PLAIN, stdout=nowhere.fileno()
        )
    assert (code, strip_styles(text).startswith(f"{batch}:2: ")) == (3, True)


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        ("2,3,-1", 2, ("2,3,-1", "    ^^")),
        ("[2, 3]", 1, ("[2, 3]", "    ^")),
        ("2,,3", 1, ("2,,3", "  ^")),
        ("2,3", None, ("2,3", "^^^")),
        ("2,3", 7, ("2,3", "^^^")),
        ("", 0, ("", "^")),
        ("'批次',4", 1, ("'批次',4", "       ^")),
        ("a\x1b[m,4", 1, ("a?[m,4", "     ^")),
    ],
    ids=str,
)
def test_carets_stand_under_the_item(text: str, index: int | None, expected: tuple[str, str]):
    assert underline(text, index, 40) == expected


@pytest.mark.parametrize("index", [0, 10, 25, 49])
@pytest.mark.parametrize("width", [12, 20, 40])
def test_a_long_shape_is_cut_around_the_item(index: int, width: int):
    shape, carets = underline(",".join(str(number) for number in range(100, 150)), index, width)
    assert max(len(shape), len(carets)) <= width
    assert "".join(character for character, mark in zip(shape, carets, strict=False) if mark == "^") == str(100 + index)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BrokenPipeError(), 1),
        (FileNotFoundError(), 1),
        (UnavailableError("", None), 5),  # type: ignore[arg-type] # the code of gRPC decides nothing
        (CallTimeoutError("", None), 5),  # type: ignore[arg-type] # as above
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_the_system_is_not_one_of_the_connection(error: Exception, code: int):
    assert choose_exit_code(error) == code


@pytest.mark.parametrize("env", [PLAIN, {"TERM": "dumb"}], ids=["drawn", "plain"])
def test_a_file_says_nothing_to_the_terminal_itself(tmp_path: Path, env: dict[str, str]):
    record = {name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in ("a\x1b]0;title\x07", "b")}
    header = json.dumps(record).encode()
    path = tmp_path / "two.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    command = ("static", path, "-o", tmp_path / "out.npy", "--shape", "0", "--no-special-zero")
    code, text = run_on_terminal(PROGRAM, *command, columns=400, env=env)
    assert (code, "a\\x1b]0;title\\x07, b" in text, "\x1b]" in text) == (1, True, False)
