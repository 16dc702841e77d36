"""Runs of several processes at the same time, and of programs in other languages."""

import shutil
import sys

import pytest

from conformance_runs import make_cases, write_program
from tensor_reshape.conformance.cases import list_cases
from tensor_reshape.conformance.results import judge_replies
from tensor_reshape.conformance.runs import Program, run_program, split_command
from tensor_reshape.conformance.verdicts import Verdict

NODE = """
const lines = require('readline').createInterface({input: process.stdin});
lines.on('line', (line) => {
  const {id, question} = JSON.parse(line);
  if (id === 'inferred/3@reshape') process.abort();
  const dims = [question.data.shape.dims.reduce((a, b) => a * b, 1)];
  console.log(JSON.stringify({id, answer: {shape: {dims}}}));
});
"""
SHELL = 'while read -r line; do echo \'{"answer": {"shape": {"dims": [6]}}}\'; done'


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_parallel_conformance_jobs_divide_the_queries(jobs: int):
    code = "for query in queries(): write({'id': query['id'], **shape(6), 'pid': os.getpid()})"
    cases, replied = make_cases(9), list[None]()
    replies, _ = run_program(Program(write_program(code), 60, jobs), cases, lambda: replied.append(None))
    processes = [(replies[case.id].record or {})["pid"] for case in cases]
    assert (len(set(processes)), len(replied)) == (jobs, 9)
    assert all(process == processes[place % jobs] for place, process in enumerate(processes))


@pytest.mark.parametrize(("program", "code"), [("node", NODE), ("sh", SHELL)])
def test_conformance_program_may_be_written_in_any_language(program: str, code: str):
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no {program} on this machine")
    cases = make_cases(6)
    command = (path, "-e" if program == "node" else "-c", code)
    judgements = judge_replies(cases, run_program(Program(command, 60), cases)[0])
    verdicts = [judgements[case.id].verdict for case in cases]
    crash = Verdict.CRASH if program == "node" else Verdict.AGREES
    assert verdicts == [*[Verdict.AGREES] * 3, crash, *[Verdict.AGREES] * 2]


def test_infer_command_agrees_with_all_core_conformance_cases():
    cases = list_cases(["core"])
    command = (sys.executable, "-m", "tensor_reshape.cli", "infer", "--local", "--batch", "-")
    judgements = judge_replies(cases, run_program(Program(command, 60, 2), cases)[0])
    assert {name: one for name, one in judgements.items() if one.verdict is not Verdict.AGREES} == {}


def test_conformance_command_is_split_like_in_a_shell():
    assert split_command("mine --of 'two words'") == ["mine", "--of", "two words"]
    for text in ("", "  ", "mine 'open"):
        with pytest.raises(ValueError, match=r"is empty|is not complete"):
            split_command(text)
