"""Real programs: each case has a reply, whatever they do."""

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from conformance_runs import RIGHT, make_cases, run_code, write_program, write_shape
from tensor_reshape.conformance import programs
from tensor_reshape.conformance.cases import list_cases
from tensor_reshape.conformance.programs import (
    ProgramError,
    ProgramRunner,
    build_function_command,
    run_program,
    split_command,
)
from tensor_reshape.conformance.results import judge_reply
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
ANSWER = "write({'id': query['id'], **shape(6)})"


@pytest.fixture(autouse=True)
def few_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a run after fewer failures, because each failure is a process or two."""
    monkeypatch.setattr(programs, "_MAX_FAILURES", 3)


def test_conformance_answers_are_matched_by_id_or_order():
    shapes = [write_shape(number) for number in range(5)]
    by_id = "write({'id': query['id'], **shape(int(query['id'][9]))})"
    assert run_code(f"for query in reversed(list(queries())): {by_id}")[0] == shapes
    assert run_code("for number, query in enumerate(queries()): write(shape(number))")[0] == shapes
    answers, why, _ = run_code(
        "for number, _ in enumerate(queries()): print('{oh' if number == 2 else json.dumps(shape(6)))"
    )
    assert answers == [RIGHT, RIGHT, "garbage", RIGHT, RIGHT]
    assert why[2] == "the answer is not a JSON object: {oh"


def test_answer_lines_with_unknown_ids_are_ignored():
    code = f"""
        print("loading", [1], flush=True)
        for query in queries(): print("warning"); {ANSWER}; write({{'id': 'x'}})
    """
    assert run_code(code)[0] == [RIGHT] * 5
    code = "for query in queries(): [write({'id': query['id'], **shape(n)}) for n in (6, 7)]"
    assert run_code(code)[0] == [RIGHT] * 5  # the first answer of a query counts
    with pytest.raises(ProgramError, match=r'it wrote \{"id": "xinferred/'):
        run_code("for query in queries(): write({'id': 'x' + query['id'], **shape(6)})")


def test_conformance_program_may_send_its_name_and_versions():
    code = """
        write({'implementation': {'name': 'mine', 'versions': {'lib': '1'}}})
        for query in queries(): write(shape(6))
    """
    answers, _, runner = run_code(code)
    assert (answers, runner.introduction) == ([RIGHT] * 5, {"name": "mine", "versions": {"lib": "1"}})


CRASHES = {
    "os.abort()": "SIGABRT",
    "os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
    "sys.exit(7)": "exit code 7",
    "print('1\\n2', 1 / 0)": "exit code 1: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("crash", CRASHES)
def test_crash_of_a_conformance_program_affects_only_its_query(crash: str):
    answers, why, _ = run_code(f"""
        for query in queries():
            if query['id'].startswith('inferred/2'): {crash}
            {ANSWER}
    """)
    assert (answers, why[2]) == ([RIGHT, RIGHT, "crash", RIGHT, RIGHT], CRASHES[crash])


def test_crashing_query_is_identified_if_all_input_is_read_first():
    code = f"""
        all = list(queries())
        if any(query['id'].startswith('inferred/13@') for query in all): os.abort()
        for query in all: {ANSWER}
    """
    assert run_code(code, count=40)[0] == [*[RIGHT] * 13, "crash", *[RIGHT] * 26]


def test_hang_of_a_conformance_program_affects_only_its_query(monkeypatch: pytest.MonkeyPatch):
    code = """
        for query in queries():
            if query['id'].startswith('inferred/{number}'): time.sleep(1000)
            {ANSWER}
    """
    answers, why, _ = run_code(code.format(number=1, ANSWER=ANSWER), seconds=0.5)
    assert (answers, why[1]) == ([RIGHT, "hang", RIGHT, RIGHT, RIGHT], "no answer in 0.5 s")
    monkeypatch.setattr(programs, "START_SECONDS", 1)
    assert run_code(code.format(number=0, ANSWER=ANSWER), seconds=1)[0] == ["hang", *[RIGHT] * 4]


def test_conformance_program_that_never_answers_raises_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with pytest.raises(ProgramError, match=r"^exit code 1: no such library$"):
        run_code("sys.exit('no such library')", count=500)
    with pytest.raises(ProgramError, match=r"^the program ended without an answer$"):
        run_code("pass", count=100)
    monkeypatch.setattr(programs, "START_SECONDS", 0.5)
    with pytest.raises(ProgramError, match=r"^no answer in 0\.5 s$"):
        run_code(f"print(file=open({str(tmp_path / 'starts')!r}, 'a')); time.sleep(1000)", count=100, seconds=0.1)
    assert len((tmp_path / "starts").read_text()) == 2  # it is started only twice


def test_conformance_program_may_answer_without_reading_its_input():
    code = "os.close(0)\nfor number in range(400): write({'id': f'inferred/{number}@reshape', **shape(6)})"
    assert run_code(code, count=400)[0] == [RIGHT] * 400


def test_endless_program_output_is_truncated_in_the_report():
    endless_answer = 'print(end=\'{"id": "inferred/0@reshape", "answer": [\')\nwhile True: print(end=\'1, \' * 65536)'
    for code, failure in (
        (endless_answer, "garbage"),
        ("[sys.stderr.write('y' * 65536) for _ in range(100)]; os.abort()", "crash"),
    ):
        answers, why, _ = run_code(code, count=1)
        assert (answers, len(why[0]) < 1000) == ([failure], True), code


def test_output_line_without_a_valid_answer_is_garbage():
    for value in (
        "[" * 50_000,
        '{"id": 1}',
        '{"answer": 1' + "0" * 5000 + "}",
        "null",
        "[" * 500 + "]" * 500,
        '{"answer": {}, "more": ' + "[" * 500 + "]" * 500 + "}",
        "\\xff\\xfe",
        '"\\\\ud800"',
    ):
        answers, _, _ = run_code(f"""
            for number, query in enumerate(queries()):
                sys.stdout.buffer.write(b'''{value}\\n''' if number else json.dumps(shape(6)).encode() + b'\\n')
        """)
        assert answers[0] == RIGHT, value[:40]
        assert all(one == "garbage" or "answer" not in one for one in answers[1:]), value[:40]


def test_conformance_program_that_exits_early_is_restarted(tmp_path: Path):
    answers, _, _ = run_code(f"for number, query in zip(range(2), queries()): {ANSWER}")
    assert answers == [RIGHT] * 5
    # After many failures in a row, the program must answer a query again.
    code = f"""
        if os.path.exists(sys.argv[1]): sys.exit(3)
        for number, query in enumerate(queries()):
            if number == 5: open(sys.argv[1], 'w').close(); sys.exit(3)
            {ANSWER}
    """
    cases = make_cases(200)
    replies = asyncio.run(ProgramRunner((*write_program(code), str(tmp_path / "dead")), 20).run(cases))
    assert [replies[case.id].record is not None for case in cases] == [True] * 5 + [False] * 195


def test_missing_conformance_program_raises_an_error():
    with pytest.raises(FileNotFoundError):
        asyncio.run(ProgramRunner(("no-such-program",), 1).run(make_cases(1)))


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_parallel_conformance_jobs_divide_the_queries(jobs: int):
    code = "for query in queries(): write({'id': query['id'], **shape(6), 'pid': os.getpid()})"
    cases = make_cases(9)
    replies, _ = run_program(write_program(code), cases, 60, jobs)
    processes = [(replies[case.id].record or {})["pid"] for case in cases]
    assert len(set(processes)) == jobs
    assert all(process == processes[place % jobs] for place, process in enumerate(processes))


@pytest.mark.parametrize(("program", "code"), [("node", NODE), ("sh", SHELL)])
def test_conformance_program_may_be_written_in_any_language(program: str, code: str):
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no {program} on this machine")
    cases = make_cases(6)
    command = (path, "-e" if program == "node" else "-c", code)
    replies, _ = run_program(command, cases, 60)
    verdicts = [judge_reply(case, replies[case.id]).verdict for case in cases]
    crash = Verdict.CRASH if program == "node" else Verdict.AGREES
    assert verdicts == [*[Verdict.AGREES] * 3, crash, *[Verdict.AGREES] * 2]


def test_infer_command_agrees_with_all_core_conformance_cases():
    cases = list_cases(["core"])
    command = (sys.executable, "-m", "tensor_reshape.cli", "infer", "--local", "--batch", "-")
    replies, _ = run_program(command, cases, 60, 2)
    results = [judge_reply(case, replies[case.id]) for case in cases]
    assert [one for one in results if one.verdict is not Verdict.AGREES] == []


def test_conformance_command_is_split_like_in_a_shell():
    assert split_command("mine --of 'two words'") == ["mine", "--of", "two words"]
    for text in ("", "  ", "mine 'open"):
        with pytest.raises(ValueError, match=r"is empty|is not complete"):
            split_command(text)


def test_conformance_function_is_named_by_module_and_function():
    assert build_function_command("mine:answer")[-1] == "mine:answer"
    for name in ("mine", "mine:", ":answer"):
        with pytest.raises(ValueError, match="is named MODULE:FUNCTION"):
            build_function_command(name)
