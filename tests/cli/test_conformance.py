"""`tensor-reshape conformance`, with real programs."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Outcome, run_command
from conformance_runs import make_mixed_results, write_program
from server_processes import ServerProcess
from tensor_reshape.cli.conformance import _write_report
from tensor_reshape.conformance import programs

REJECTS = "for query in queries(): write({'id': query['id'], 'rejection': {'reason': 'NO'}})"
COPIES = ("--rule", "copies")


def run(code: str, *arguments: str | Path) -> Outcome:
    return run_command("conformance", "--command", shlex.join(write_program(code)), *arguments)


def test_server_agrees_with_every_core_conformance_case(server: ServerProcess):
    command = f"{sys.executable} -m tensor_reshape.cli infer --batch - --server {server.address}"
    outcome = run_command("conformance", "--command", command)
    title, counts = outcome.text.splitlines()
    assert (outcome.code, outcome.errors, counts) == (0, [], "1204 agrees")
    assert title == f"{command}: 1204 cases of the conformance suite 2, core"


def test_conformance_report_shows_counts_and_the_smallest_differences():
    code = f"write({{'implementation': {{'name': 'mine', 'versions': {{'lib': '2'}}}}}})\n{REJECTS}"
    outcome = run(code, *COPIES)
    title, counts, _, header, *facts = outcome.text.splitlines()
    assert (outcome.code, title.partition(": ")[0]) == (1, "mine (lib 2)")
    assert re.fullmatch(r"\d+ agrees, \d+ spurious_error", counts)
    assert re.fullmatch(r"spurious_error, copies: copies/\S+@reshape, the smallest of \d+", header)
    assert [fact.split()[0] for fact in facts] == ["case", "expected", "answer", "differs", "because"]


def test_conformance_report_lists_the_worst_differences_first():
    text = "\n".join(_write_report(make_mixed_results()))
    headers = [line.partition("@")[0] for line in text.splitlines() if "@" in line]
    assert headers == [
        "crash, inferred: inferred/crash",
        "hang, inferred: inferred/hang",
        "garbage, target: target/rows",
        "wrong_shape, inferred: inferred/wrong",
        "weaker, partial: partial/bounded",
    ]


def test_unsupported_conformance_cases_are_no_difference_and_are_shown_with_escapes():
    outcome = run("for query in queries(): write({'unsupported': '\\x1b[31m\\x00'})", *COPIES)
    assert (outcome.code, outcome.text.splitlines()[-1]) == (0, "not supported, 30 cases: \\x1b[31m\\x00")


def test_conformance_results_are_printed_as_json():
    outcome = run(REJECTS, *COPIES, "--jobs", "2", "--json")
    record = json.loads(outcome.text)
    assert (outcome.code, record["sizes"], record["versions"]) == (1, ["core"], {})
    assert {one["verdict"] for one in record["differences"]} == {"spurious_error"}
    assert len(record["differences"]) == record["counts"]["copies"]["spurious_error"]


def test_conformance_run_continues_after_a_crash_and_a_hang(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "START_SECONDS", 3)  # the program hangs before its start is measured
    code = """
        for query in queries():
            if query['id'] == 'volume/same@static_reshape': os.abort()
            if query['id'] == 'volume/same@reshape': time.sleep(1000)
            write({'id': query['id'], 'unsupported': 'anything'})
    """
    record = json.loads(run(code, "--rule", "volume", "--timeout", "0.5", "--jobs", "2", "--json").text)
    wrong = {one["id"]: one["verdict"] for one in record["differences"]}
    assert wrong == {"volume/same@static_reshape": "crash", "volume/same@reshape": "hang"}


def test_random_conformance_cases_find_the_smallest_difference(server: ServerProcess):
    command = f"{sys.executable} -m tensor_reshape.cli infer --batch - --server {server.address}"
    right = run_command("conformance", "--command", command, "--random", "50")
    assert (right.code, right.errors) == (0, [])
    assert re.search(r", random, seed \d+$", right.text.splitlines()[0])
    wrong = run(REJECTS, "--random", "20", "--seed", "1")
    head, record = wrong.text.splitlines()[-2:]
    assert (wrong.code, head) == (1, "The smallest case found with spurious_error:")
    question = json.loads(record)["question"]
    assert (question["data"], question["shape"]) == ({"shape": {}}, {})
    printed = json.loads(run(REJECTS, "--random", "20", "--seed", "1", "--json").text)
    assert printed["smallest"] == {"spurious_error": json.loads(record)}


@pytest.mark.parametrize("options", [("--seed", "1"), ("--random", "5", "--size", "core"), ("--random", "0")], ids=str)
def test_random_conformance_options_that_conflict_are_rejected(options: tuple[str, ...]):
    assert run(REJECTS, *options).code == 2


MISTAKES: list[tuple[list[str], str]] = [
    ([], "name one implementation, with --python MODULE:FUNCTION or --command PROGRAM"),
    (["--command", "a", "--python", "b:c"], "name one implementation, with"),
    (["--command", "'"], "a quote or an escape is not complete"),
    (["--command", "cat", "--size", "some"], "'some' is not one of"),
    (["--command", "no-such-program"], "no-such-program cannot be started: No such file or directory"),
    (["--command", "false"], "false does not answer: exit code 1"),
    (["--python", "json"], "is named MODULE:FUNCTION, for example mine:answer, not 'json'"),
    (["--python", "nosuch:answer"], "nosuch:answer does not answer: exit code 1: ModuleNotFoundError"),
]


def test_conformance_usage_errors_name_the_mistake():
    for arguments, message in MISTAKES:
        outcome = run_command("conformance", *arguments)
        assert (outcome.code, message in " ".join(outcome.errors)) == (2, True), arguments


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_to_a_conformance_run_ends_its_child_processes(tmp_path: Path, number: signal.Signals, code: int):
    path = tmp_path / "process"
    os.mkfifo(path)
    hangs = shlex.join(write_program(f"open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"))
    # A job in the background and nohup ignore signals, and so would a process that the tests start.
    defaults = ("env", "--default-signal=INT,TERM,HUP")
    command = (*defaults, sys.executable, "-m", "tensor_reshape.cli", "conformance", "--command", hangs)
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        child = path.read_text()  # when it has started
        process.send_signal(number)
        assert (process.wait(60), Path(f"/proc/{child}").exists()) == (code, False)
