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

REFUSES = "for question in questions(): tell({'id': question['id'], 'error': {'reason': 'NO'}})"
OFFERS_NOTHING = "for question in questions(): tell({'unsupported': 'anything'})"


def run(code: str, *arguments: str | Path) -> Outcome:
    return run_command("conformance", "--command", shlex.join(write_program(code)), "--name", "mine", *arguments)


@pytest.fixture
def refusals(tmp_path: Path) -> Path:
    """The results of a program that refuses every question of one rule."""
    assert run(REFUSES, "--rule", "copies", "--results", tmp_path / "refusals.json").code == 1
    return tmp_path / "refusals.json"


def test_the_server_agrees_with_the_whole_of_core(server: ServerProcess):
    outcome = run_command("conformance", "--server", server.address)
    assert (outcome.code, outcome.errors) == (0, [])
    assert outcome.text.startswith(f"server {server.address} (tensor-reshape ")
    assert outcome.text.splitlines()[2] == "rule      agrees"


def test_differences_are_shown_by_their_smallest_examples(refusals: Path):
    outcome = run_command("conformance", "report", refusals)
    title, _, head, *_ = outcome.text.splitlines()
    assert title.startswith("mine: ")
    assert head.split() == ["rule", "agrees", "spurious_error"]
    assert "\n  asked    reshape of " in outcome.text
    assert "\n  because  " in outcome.text
    assert "refused for another reason, which is no difference" in outcome.text


def test_what_is_not_offered_is_no_difference():
    outcome = run(OFFERS_NOTHING, "--rule", "copies")
    assert outcome.code == 0
    assert "questions: anything" in outcome.text


def test_a_run_fails_by_differences_that_nobody_agreed_to(tmp_path: Path):
    expect, rule = tmp_path / "expect.json", ("--rule", "copies")
    assert run(REFUSES, *rule, "--write-expect", expect).code == 0
    agreed = run(REFUSES, *rule, "--expect", expect)
    assert (agreed.code, agreed.text.splitlines()[-1]) == (0, "all differences are agreed to")
    record = json.loads(expect.read_text())
    name = next(iter(record["differences"]))
    del record["differences"][name]
    expect.write_text(json.dumps(record))
    outcome = run(REFUSES, *rule, "--expect", expect)
    assert (outcome.code, outcome.text.splitlines()[-1]) == (1, f"not agreed to: {name}: spurious_error")


def test_a_run_fails_by_agreed_differences_that_are_gone(tmp_path: Path):
    expect = tmp_path / "expect.json"
    run(REFUSES, "--rule", "copies", "--write-expect", expect)
    outcome = run(OFFERS_NOTHING, "--rule", "copies", "--expect", expect)
    assert outcome.code == 1
    assert outcome.text.splitlines()[-1].startswith("agreed to, and gone: copies/")
    assert run(OFFERS_NOTHING, "--rule", "packed", "--size", "core", "--expect", expect).code == 0


def test_reports_are_written_to_files(tmp_path: Path):
    html, junit, results = (tmp_path / name for name in ("report.html", "junit.xml", "results.json"))
    files = ("--html", html, "--junit", junit, "--results", results)
    run(REFUSES, "--rule", "copies", "--version", "lib=1.2", "--version", "os=linux", *files)
    read = read_results(results)
    assert (read.implementation, read.versions, list(read.sizes)) == ("mine", {"lib": "1.2", "os": "linux"}, ["core"])
    assert b"<h1>Conformance of mine</h1>" in html.read_bytes()
    assert JUnitXml.fromfile(str(junit)).tests == read.total


def test_results_are_reported_side_by_side(tmp_path: Path, refusals: Path):
    other = tmp_path / "other.json"
    run(OFFERS_NOTHING, "--rule", "copies", "--results", other)
    outcome = run_command("conformance", "report", refusals, other, "--html", tmp_path / "both.html")
    assert (outcome.code, outcome.text.count("not offered, ")) == (0, 1)
    assert "not offered" in outcome.text.splitlines()[4]
    assert b"<h1>Conformance</h1>" in (tmp_path / "both.html").read_bytes()


def test_a_program_says_what_it_is(tmp_path: Path):
    code = f"tell({{'implementation': {{'name': 'it', 'versions': {{'lib': '2'}}}}}})\n{OFFERS_NOTHING}"
    path = tmp_path / "results.json"
    run_command(
        "conformance",
        "--command",
        shlex.join(write_program(code)),
        "--rule",
        "copies",
        "--results",
        path,
        "--jobs",
        "2",
    )
    assert (read_results(path).implementation, read_results(path).versions) == ("it", {"lib": "2"})


MISTAKES: list[tuple[list[str], str]] = [
    ([], "name what is asked: --python, --command or --server"),
    (["--command", "a", "--python", "b:c"], "one implementation is asked at a time: --python, --command or --server"),
    (["--command", "a", "--server", "b:1"], "one implementation is asked at a time: --python, --command or --server"),
    (["--command", "'"], "No closing quotation"),
    (["--command", "cat", "--size", "some"], "'some' is not one of"),
    (["report", "no-such-file"], "does not exist"),
    (["report", __file__], "has no results of the conformance kit"),
    (["--command", "cat", "--expect", __file__], "has no agreed differences"),
]


@pytest.mark.parametrize(
    ("arguments", "told"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_mistake_is_told(arguments: list[str], told: str):
    outcome = run_command("conformance", *arguments)
    assert (outcome.code, told in " ".join(outcome.errors)) == (2, True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_whatever_ends_a_run_ends_its_processes(tmp_path: Path, number: signal.Signals, code: int):
    path = tmp_path / "process"
    os.mkfifo(path)
    hangs = shlex.join(write_program(f"open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"))
    # Whoever runs the tests may ignore signals, as jobs in the background and nohup do; that is another truth.
    command = (
        "env",
        "--default-signal=INT,TERM,HUP",
        sys.executable,
        "-m",
        "tensor_reshape.cli",
        "conformance",
        "--command",
        hangs,
    )
    with subprocess.Popen(command, stderr=subprocess.PIPE) as run_of_it:
        child = path.read_text()  # when it has started
        run_of_it.send_signal(number)
        assert (run_of_it.wait(60), Path(f"/proc/{child}").exists()) == (code, False)


def test_a_program_that_cannot_be_started_is_told():
    outcome = run_command("conformance", "--command", "no-such-program")
    assert (outcome.code, outcome.errors) == (1, ["Error: [Errno 2] No such file or directory: 'no-such-program'"])


def test_the_variable_of_the_server_names_what_is_asked_where_nothing_else_does(server: ServerProcess):
    env = {"TENSOR_RESHAPE_SERVER": server.address}
    assert run_command("conformance", "--rule", "copies", env=env).text.startswith(f"server {server.address}")
    command = shlex.join(write_program(OFFERS_NOTHING))
    assert run_command(
        "conformance", "--rule", "copies", "--command", command, "--name", "mine", env=env
    ).text.startswith("mine")
