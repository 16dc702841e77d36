"""The reports of failed commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import NOBODY, PROGRAM, run_command, run_on_terminal, strip_styles
from conformance_runs import write_question
from tensor_reshape.cli.reports import choose_exit_code, report, underline
from tensor_reshape.client import CallTimeoutError, LimitError, Reason, UnavailableError

PLAIN = {"NO_COLOR": "1"}
LOCAL = ("--no-special-zero", "--local")


def draw(*arguments: str | Path, columns: int = 100) -> tuple[int, list[str]]:
    code, text = run_on_terminal(PROGRAM, *arguments, columns=columns, env=PLAIN)
    return code, [line.rstrip() for line in strip_styles(text).splitlines()]


@pytest.mark.parametrize(
    ("data", "shape", "options", "shown", "carets", "code"),
    [
        ("2,3", "4, -1", (), "  --shape 4, -1", "             ^^", 3),
        ("2,3,N*!", "6", (), "  --data 2,3,N*!", "             ^^^", 2),
        ("2,3", "6", ("--expect", "7"), "  --expect 7", "           ^", 3),
    ],
    ids=["target", "data", "expected"],
)
def test_terminal_error_underlines_the_wrong_item_as_typed(
    data: str, shape: str, options: tuple[str, ...], shown: str, carets: str, code: int
):
    ended, lines = draw("infer", "--data", data, "--shape", shape, *options, *LOCAL)
    assert (ended, lines[lines.index(shown) + 1]) == (code, carets)


def test_terminal_error_shows_accepted_values():
    code, lines = draw("infer", "--data", "10", "--shape", "4,-1", *LOCAL)
    assert (code, "the nearest are 2 and 5" in " ".join(lines)) == (3, True)


def test_terminal_error_without_a_wrong_item_is_one_line():
    code, lines = draw("health", *NOBODY)
    assert (code, lines[0].startswith("Error: ")) == (5, True)
    code, lines = draw()
    assert (code, any(line.startswith("Error") for line in lines)) == (2, False)


def test_json_error_on_a_terminal_is_plain_text():
    code, lines = draw("infer", "--data", "2,3", "--shape", "4,-1", *LOCAL, "--json", columns=1000)
    assert (code, len(lines), lines[0][0]) == (3, 1, "{")


def test_rejected_batch_line_error_has_file_name_and_line_number(tmp_path: Path):
    batch = tmp_path / "questions.jsonl"
    lines = [{"question": write_question()}, {"question": write_question(shape=[8])}]
    batch.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    command = (PROGRAM, "infer", "--batch", batch, "--local")
    with Path(os.devnull).open("w") as nowhere:
        code, text = run_on_terminal(*command, columns=400, env=PLAIN, stdout=nowhere.fileno())
    assert (code, strip_styles(text).startswith(f"{batch}:2: ")) == (3, True)


def test_error_carets_stand_under_the_wrong_item():
    for text, index, expected in (
        ("2,3,-1", 2, ("2,3,-1", "    ^^")),
        ("[2, 3]", 1, ("[2, 3]", "    ^")),
        ("2,,3", 1, ("2,,3", "  ^")),
        ("2,3", None, ("2,3", "^^^")),
        ("2,3", 7, ("2,3", "^^^")),
        ("", 0, ("", "^")),
        ("'批次',4", 1, ("'批次',4", "       ^")),
        ("a\x1b[m,4", 1, ("a?[m,4", "     ^")),
    ):
        assert underline(text, index, 40) == expected, text


def test_long_shape_in_an_error_is_shortened_around_the_item():
    text = ",".join(str(number) for number in range(100, 150))
    for index, width in ((index, width) for index in (0, 10, 25, 49) for width in (12, 20, 40)):
        shape, carets = underline(text, index, width)
        assert max(len(shape), len(carets)) <= width
        marked = [character for character, mark in zip(shape, carets, strict=False) if mark == "^"]
        assert "".join(marked) == str(100 + index), (index, width)


def test_command_line_errors_name_the_relevant_options(tmp_path: Path):
    assert "--expect[0] is 7" in run_command("infer", "--data", "6", "--shape", "6", "--expect", "7", *LOCAL).errors[0]
    file = tmp_path / "deep.npy"
    np.save(file, np.zeros([1] * 13, np.float32))
    deep = run_command("static", file, "--shape", "1", "--no-special-zero", "-o", tmp_path / "out.npy", *NOBODY)
    assert "the shape of INPUT has 13 items" in deep.errors[0]
    outcome = run_command("health", "--server", "127.0.0.1:1")
    hint = 'Start one with "tensor-reshape serve", or name one with --server'
    assert (outcome.code, outcome.errors) == (5, [f"Error: no server at 127.0.0.1:1 (connection refused). {hint}"])


def test_minus_one_of_data_is_an_unknown_dim():
    assert (
        run_command("infer", "--data", "-1,4", "--shape", "2,4", "--expect", "-1,4", *LOCAL).text
        == "2,4\nrequires: data[0] = 2"
    )
    text = "--data[0] is -2; a dimension must be from 0 to 2^63 - 1 [DIM_OUT_OF_RANGE]"
    assert run_command("infer", "--data", "-2,4", "--shape", "4", *LOCAL).errors == [f"Error: {text}"]


def test_error_of_a_stalled_call_suggests_no_python_code(capsys: pytest.CaptureFixture[str]):
    error = LimitError.of(Reason.STALLED, "no progress (--stall-timeout-seconds), because the network was too slow")
    error.advice = ": pass another argument"
    report(error, {})
    advice = "Use a faster network, or raise this option of the server"
    assert capsys.readouterr().err == f"Error: {error.message}. {advice} [STALLED]\n"


def test_system_error_names_the_file_and_the_cause(tmp_path: Path):
    model = tmp_path / "model.xml"
    model.write_bytes((Path(__file__).parents[2] / "examples" / "frozen_batch.xml").read_bytes())
    weights = model.with_suffix(".bin")
    weights.mkdir()
    outcome = run_command("check", model)
    assert (outcome.code, outcome.errors) == (2, [f"Error: {model}: {weights}: Is a directory"])


def test_json_error_goes_to_stderr_if_the_reader_of_stdout_is_gone():
    command = (
        sys.executable,
        "-m",
        "tensor_reshape.cli",
        "infer",
        "--data",
        "2,3",
        "--shape",
        "4,-1",
        *LOCAL,
        "--json",
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert json.loads(done.stderr.splitlines()[0])["rejection"]["reason"] == "NOT_DIVISIBLE"


def test_exit_codes_distinguish_operating_system_and_connection_errors():
    errors: list[Exception] = [BrokenPipeError(), FileNotFoundError()]
    errors += [UnavailableError("", None), CallTimeoutError("", None)]  # type: ignore[arg-type] # the code has no effect
    assert [choose_exit_code(error) for error in errors] == [1, 1, 5, 5]


@pytest.mark.parametrize("env", [PLAIN, {"TERM": "dumb"}], ids=["drawn", "plain"])
def test_control_characters_in_a_file_are_escaped_on_the_terminal(tmp_path: Path, env: dict[str, str]):
    record = {name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in ("a\x1b]0;title\x07", "b")}
    header = json.dumps(record).encode()
    path = tmp_path / "two.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    command = ("static", path, "-o", tmp_path / "out.npy", "--shape", "0", "--no-special-zero")
    code, text = run_on_terminal(PROGRAM, *command, columns=400, env=env)
    assert (code, "a\\x1b]0;title\\x07, b" in text, "\x1b]" in text) == (1, True, False)
