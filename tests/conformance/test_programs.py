"""Real programs: each case has a reply, whatever they do."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conformance_runs import RIGHT, make_cases, run_code, write_program, write_shape
from tensor_reshape.conformance import programs
from tensor_reshape.conformance.programs import (
    Outcome,
    ProgramError,
    ProgramRunner,
    exchange_lines,
    run_program,
)
from tensor_reshape.conformance.verdicts import CaseVerdict

ANSWER = "write({'id': query['id'], **shape(6)})"

LINES = [b"1", b"2", b"3"]


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


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_parallel_conformance_jobs_divide_the_queries(jobs: int):
    code = "for query in queries(): write({'id': query['id'], **shape(6), 'pid': os.getpid()})"
    cases = make_cases(9)
    replies, _ = run_program(write_program(code), cases, 60, jobs)
    processes = [(replies[case.id].record or {})["pid"] for case in cases]
    assert len(set(processes)) == jobs
    assert all(process == processes[place % jobs] for place, process in enumerate(processes))


def run(code: str, start: float = 60, seconds: float = 60) -> tuple[Outcome, list[bytes]]:
    """Runs a program whose answers begin with "a". Returns all of its lines as well."""
    received = list[bytes]()

    def receive(line: bytes) -> bool:
        received.append(line)
        return line.startswith(b"a")

    return asyncio.run(exchange_lines(write_program(code), LINES, receive, start, seconds)), received


def test_program_outcome_has_exit_code_and_last_standard_error_bytes():
    assert run("print('a'); sys.exit('so it is')")[0] == Outcome(CaseVerdict.CRASH, 1, "so it is")
    assert run("os.kill(os.getpid(), signal.SIGSEGV)")[0].code == -signal.SIGSEGV
    outcome, _ = run("sys.stderr.write('x' * 1000000 + 'end')")
    assert outcome.tail.endswith("xend")
    assert len(outcome.tail) <= programs._TAIL_BYTES


def test_conformance_program_without_output_is_stopped():
    assert run("time.sleep(1000)", 0.2)[0].end is CaseVerdict.HANG
    assert run("print('a', flush=True); time.sleep(1000)", 60, 0.2)[0].end is CaseVerdict.HANG
    # Lines that are not answers count as silence.
    outcome, received = run("while True: print('b', flush=True); time.sleep(0.01)", 0.5)
    assert (outcome.end, set(received)) == (CaseVerdict.HANG, {b"b"})


@pytest.mark.parametrize("written", ["'b' * 65536", "'b' * 65535 + '\\n'", "'\\n' * 1000"])
def test_conformance_program_with_excessive_output_is_stopped(written: str):
    outcome, received = run(f"while True: sys.stdout.write({written})")
    assert outcome.end is CaseVerdict.GARBAGE
    assert sum(map(len, received)) <= programs.MAX_STRAY_BYTES + programs._READ_BYTES


def test_conformance_program_that_only_closes_its_output_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "_EXIT_SECONDS", 0.2)
    assert run("os.close(1); os.close(2); sys.stdin.close(); time.sleep(1000)")[0] == Outcome(
        CaseVerdict.CRASH, None, ""
    )


def test_child_processes_of_a_conformance_program_are_killed(tmp_path: Path):
    path = tmp_path / "child"
    run(f"""
        import subprocess
        child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)'])
        open({str(path)!r}, 'w').write(str(child.pid)); print('a\\na\\na', flush=True); time.sleep(1000)
    """)
    child = int(path.read_text())
    with suppress(ProcessLookupError):  # the process that adopted it has reaped it
        deadline = time.monotonic() + 60
        while Path(f"/proc/{child}/stat").read_text().split()[2] != "Z" and time.monotonic() < deadline:
            os.kill(child, 0)
    assert not Path(f"/proc/{child}").exists() or Path(f"/proc/{child}/stat").read_text().split()[2] == "Z"
