"""`tensor-reshape conformance`, with real programs."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml

from command_line import Outcome, run_command
from conformance_runs import write_program
from server_processes import ServerProcess
from tensor_reshape.conformance.results import read_results

REJECTS = "for query in queries(): write({'id': query['id'], 'rejection': {'reason': 'NO'}})"
SUPPORTS_NOTHING = "for query in queries(): write({'unsupported': 'anything'})"
COPIES = ("--rule", "copies")


def run(code: str, *arguments: str | Path) -> Outcome:
    return run_command("conformance", "--command", shlex.join(write_program(code)), "--name", "mine", *arguments)


def test_server_agrees_with_every_core_conformance_case(server: ServerProcess):
    command = f"{sys.executable} -m tensor_reshape.cli infer --batch - --server {server.address}"
    outcome = run_command("conformance", "--command", command, "--name", "a server")
    assert (outcome.code, outcome.errors) == (0, [])
    assert outcome.text.startswith("a server: ")
    assert outcome.text.splitlines()[2] == "rule        agrees"


def test_conformance_reports_show_differences_with_examples(tmp_path: Path):
    html, junit, results, other = (tmp_path / name for name in ("a.html", "a.xml", "a.json", "b.json"))
    files = ("--html", html, "--junit", junit, "--results", results)
    assert run(REJECTS, *COPIES, "--version", "lib=1.2", "--version", "os=linux", *files).code == 1
    read = read_results(results)
    assert (read.implementation, read.versions, list(read.sizes)) == ("mine", {"lib": "1.2", "os": "linux"}, ["core"])
    assert "spurious_error, copies" in html.read_text()
    assert JUnitXml.fromfile(str(junit)).tests == read.total

    text = run_command("conformance", "report", results).text
    title, _, head, *_ = text.splitlines()
    assert title.startswith("mine (")
    assert head.split() == ["rule", "agrees", "spurious_error"]
    assert "rejected with another reason, which is not a difference" in text

    nothing = run(SUPPORTS_NOTHING, *COPIES, "--results", other)
    assert (nothing.code, "cases: anything" in nothing.text) == (0, True)
    both = run_command("conformance", "report", results, other, "--html", tmp_path / "both.html")
    assert (both.code, both.text.count("not supported, ")) == (0, 1)
    assert both.text.splitlines()[4].endswith("not supported")
    assert "not supported" in (tmp_path / "both.html").read_text()


def test_random_conformance_cases_find_the_smallest_difference(server: ServerProcess):
    command = f"{sys.executable} -m tensor_reshape.cli infer --batch - --server {server.address}"
    right = run_command("conformance", "--command", command, "--random", "50")
    assert (right.code, right.errors) == (0, [])
    assert "To repeat the run: --random 50 --seed " in right.text
    wrong = run(REJECTS, "--random", "20", "--seed", "1")
    head, record = wrong.text.splitlines()[-2:]
    assert (wrong.code, head) == (1, "The smallest case found with spurious_error:")
    question = json.loads(record)["question"]
    assert (question["data"], question["shape"]) == ({"shape": {}}, {})


@pytest.mark.parametrize("options", [("--seed", "1"), ("--random", "5", "--size", "core"), ("--random", "0")], ids=str)
def test_random_conformance_options_that_conflict_are_rejected(options: tuple[str, ...]):
    assert run(REJECTS, *options).code == 2


def test_conformance_run_fails_on_new_and_on_missing_differences(tmp_path: Path):
    expect = tmp_path / "expect.json"
    assert run(REJECTS, *COPIES, "--write-expect", expect).code == 0
    expected = run(REJECTS, *COPIES, "--expect", expect)
    assert (expected.code, expected.text.splitlines()[-1]) == (0, "all differences are expected")
    gone = run(SUPPORTS_NOTHING, *COPIES, "--expect", expect)
    assert (gone.code, gone.text.splitlines()[-1].partition("/")[0]) == (1, "expected, but gone: copies")
    assert run(SUPPORTS_NOTHING, "--rule", "packed", "--size", "core", "--expect", expect).code == 0
    record = json.loads(expect.read_text())
    name = next(iter(record["differences"]))
    del record["differences"][name]
    expect.write_text(json.dumps(record))
    new = run(REJECTS, *COPIES, "--expect", expect)
    assert (new.code, new.text.splitlines()[-1]) == (1, f"not expected: {name}: spurious_error")


def test_conformance_results_have_the_name_that_the_program_sends(tmp_path: Path):
    code = f"write({{'implementation': {{'name': 'it', 'versions': {{'lib': '2'}}}}}})\n{SUPPORTS_NOTHING}"
    path = tmp_path / "results.json"
    command = shlex.join(write_program(code))
    run_command("conformance", "--command", command, *COPIES, "--results", path, "--jobs", "2")
    assert (read_results(path).implementation, read_results(path).versions) == ("it", {"lib": "2"})


MISTAKES: list[tuple[list[str], str]] = [
    ([], "name one implementation, with --python MODULE:FUNCTION or --command PROGRAM"),
    (["--command", "a", "--python", "b:c"], "name one implementation, with"),
    (["--command", "'"], "a quote or an escape is not complete"),
    (["--command", "cat", "--size", "some"], "'some' is not one of"),
    (["report", "no-such-file"], "does not exist"),
    (["report", __file__], "does not contain results of the conformance suite"),
    (
        ["--command", "cat", "--expect", __file__],
        "is not a file of expected differences: create one with --write-expect",
    ),
    (["--command", "cat", "--version", "2.1"], "--version requires NAME=VERSION, not '2.1'"),
    (["--command", "cat", "--results", "/nowhere/results.json"], "there is no folder /nowhere"),
    (["--command", "no-such-program"], "no-such-program cannot be started: No such file or directory"),
    (["--command", "false"], "false does not answer: exit code 1"),
    (["--python", "json"], "--python requires MODULE:FUNCTION, for example mine:answer, not 'json'"),
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
