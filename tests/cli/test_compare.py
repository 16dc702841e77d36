"""`tensor-reshape compare`, with the installed libraries, and with modules that fail like broken libraries."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from command_line import PROGRAM, Outcome, run_command
from tensor_reshape.cli import compare


def ask(*arguments: str) -> Outcome:
    outcome = run_command("compare", *arguments)
    assert (outcome.code, outcome.errors) == (0, [])
    return outcome


def read_row(text: str, name: str) -> str:
    """Returns the cells of a library in the table."""
    (row,) = [line for line in text.splitlines() if line.startswith(name)]
    return row.removeprefix(name).strip("* ")


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        (("2,3", "3,2"), ["All answers agree: [3,2]"]),
        (("[2,3]", "[-1,-1]"), ["All answers agree: rejected"]),
        (("2,3", "-2,3"), ["The answers differ: [2,3] by numpy; rejected by the others"]),
        (
            ("2,3", "0,3"),
            ["The answers differ only by the meaning of 0: [2,3] if a 0 copies a dimension, rejected if a 0 is a size"],
        ),
        (
            ("0,3", "0,-1"),
            [
                "The answers differ if a 0 copies a dimension: [0,3] by reshape and openvino; rejected by the others",
                "The answers differ if a 0 is a size: [0,3] by onnxruntime; [0,1] by openvino; rejected by the others",
            ],
        ),
    ],
    ids=str,
)
def test_compare_begins_with_whether_the_answers_agree(query: tuple[str, str], lines: list[str]):
    assert ask(*query).text.split("\n\n")[0].splitlines() == lines


def test_compare_shows_reasons_error_classes_and_sentences():
    text = ask("2,3", "0,5").text
    assert read_row(text, "reshape").split() == ["VOLUME_MISMATCH", "VOLUME_MISMATCH"]
    assert read_row(text, "numpy").split() == ["-", "ValueError"]
    assert "VOLUME_MISMATCH: requested shape [0, 5] has 10 elements, but input shape [2, 3] has 6" in text.splitlines()


def test_compare_names_outputs_with_more_or_fewer_elements():
    assert read_row(ask("0,3", "5,0").text, "openvino").startswith("[5,3], reads memory outside the tensor ")
    assert read_row(ask("2,3", "0,2").text, "openvino").startswith("[2,2], loses 2 elements ")


def test_compare_json_has_one_answer_for_each_meaning_of_zero():
    record: dict[str, Any] = json.loads(ask("2,3", "0,5", "--json").output)
    assert (record["data"], record["shape"], record["agree"]) == ([2, 3], [0, 5], False)
    answers = {(one["name"], one["specialZero"]): one for one in record["answers"]}
    assert len(answers) == 4 * 2 + 2 * 1 + 2 * 2
    assert answers["onnx_reshape", True]["rejection"]["reason"] == "VOLUME_MISMATCH"
    assert answers["numpy", False]["error"] == "ValueError"
    assert (answers["openvino", True]["dims"], answers["openvino", True]["readsOutside"]) == ([2, 5], True)


def test_library_that_is_not_installed_is_shown_with_its_install_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compare, "LIBRARIES", ("numpy", "no_such_library"))
    text = ask("2,3", "6").text
    assert read_row(text, "no_such_library") == "not installed: pip install no_such_library"
    assert text.splitlines()[0] == "All answers agree: [6]"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed by signal 11"),
        ("import os; os._exit(3)", "ended with exit code 3"),
        ("import os; os._exit(0)", "ended with exit code 0"),
        ("while True: pass", "no answer in 2 seconds"),
    ],
)
def test_library_that_fails_does_not_lose_the_other_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, result: str
):
    (tmp_path / "broken_library.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(compare, "_SECONDS", 2.0)
    monkeypatch.setattr(compare, "LIBRARIES", ("broken_library",))
    text = ask("2,3", "6").text
    assert (read_row(text, "broken_library"), read_row(text, "reshape")) == (result, "[6]")
    assert text.splitlines()[0] == f"The answers differ: {result} by broken_library; [6] by the others"


def test_recorded_answer_does_not_hide_a_broken_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "torch.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_row(ask("0,3", "5,0").text, "torch").split("  ")[-1].strip() == "cannot be used: ImportError"


def test_interrupt_ends_a_library_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
file = open({str(fifo)!r}, "w")
print("hangs", file=file, flush=True)
while True:
    signal.pause()
"""
    (tmp_path / "torch.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # A job in the background ignores SIGINT, and so would a process that the tests start.
    command = ("env", "--default-signal=INT", PROGRAM, "compare", "2,3", "6")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process, fifo.open() as file:
        assert file.readline() == "hangs\n"
        process.send_signal(signal.SIGINT)
        process.wait(30)  # the library would get 60 seconds
        assert file.read() == ""  # no process has the file open


def test_compare_usage_errors_name_the_argument_and_the_mistake():
    mistakes = {
        (): "Missing argument 'DATA'",
        ("2,3",): "Missing argument 'SHAPE'",
        ("N,3", "3"): "'N,3' is not a shape",
        ("2,-3", "6"): "'DATA': each size must be at least 0",
        ("2000,2000", "4"): "'DATA': more than 1048576 elements (a 0 counts as 1)",
        ("0,2000", "2000,0,2000"): "'SHAPE': more than 1048576 elements",
        ("1048576", "0,2"): "'SHAPE': more than 1048576 elements",
        ("2,3", "6", "--jsno"): "unexpected extra argument (--jsno)",
    }
    outcomes = {arguments: run_command("compare", *arguments) for arguments in mistakes}
    rows = {row: (one.code, mistakes[row] in one.errors[-1]) for row, one in outcomes.items()}
    assert rows == dict.fromkeys(mistakes, (2, True))


def test_compare_accepts_empty_tensors_with_large_dims():
    assert ask("0,1048576", "-1").text.splitlines()[0] == "All answers agree: [0]"
