"""Real programs: whatever they do, each query has its reply."""

import asyncio
from pathlib import Path

import pytest

from conformance_runs import RIGHT, ask, make_questions, write_program
from tensor_reshape.conformance import programs
from tensor_reshape.conformance.programs import ProgramAsker, ProgramError

ANSWER = "tell({'id': question['id'], 'shape': [6]})"


@pytest.fixture(autouse=True)
def few_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a run after fewer failures, because each failure is a process or two."""
    monkeypatch.setattr(programs, "_MAX_FAILURES", 3)


def test_answers_belong_to_their_ids_or_are_in_order():
    shapes = [{"shape": [number]} for number in range(5)]
    by_id = "tell({'id': question['id'], 'shape': [int(question['id'][9])]})"
    assert ask(f"for question in reversed(list(questions())): {by_id}")[0] == shapes
    assert ask("for number, question in enumerate(questions()): tell({'shape': [number]})")[0] == shapes
    told, why, _ = ask("for number, _ in enumerate(questions()): print('{oh' if number == 2 else '{\"shape\": [6]}')")
    assert told == [RIGHT, RIGHT, "garbage", RIGHT, RIGHT]
    assert why[2] == "no JSON object: {oh"


def test_lines_with_unknown_ids_are_ignored():
    code = f"""
        print("loading", [1], flush=True)
        for question in questions(): print("warning"); {ANSWER}; tell({{'id': 'x'}})
    """
    assert ask(code)[0] == [RIGHT] * 5
    code = "for question in questions(): [tell({'id': question['id'], 'shape': [n]}) for n in (6, 7)]"
    assert ask(code)[0] == [RIGHT] * 5  # a question is answered once
    told, why, _ = ask("for question in questions(): tell({'id': 'x' + question['id'], 'shape': [6]})")
    assert set(told) == {"garbage"}
    assert 'it wrote {"id": "xinferred/' in why[-1]


def test_program_may_introduce_itself():
    code = """
        tell({'implementation': {'name': 'mine', 'versions': {'lib': '1'}}})
        for question in questions(): tell({'shape': [6]})
    """
    told, _, asker = ask(code)
    assert (told, asker.introduction) == ([RIGHT] * 5, {"name": "mine", "versions": {"lib": "1"}})


CRASHES = {
    "os.abort()": "SIGABRT",
    "os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
    "sys.exit(7)": "exit code 7",
    "print('1\\n2', 1 / 0)": "exit code 1: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("crash", CRASHES)
def test_crash_affects_only_its_query(crash: str):
    answers, why, _ = ask(f"""
        for question in questions():
            if question['id'].startswith('inferred/2'): {crash}
            {ANSWER}
    """)
    assert (answers, why[2]) == ([RIGHT, RIGHT, "crash", RIGHT, RIGHT], CRASHES[crash])


def test_crash_of_a_program_that_reads_all_first_is_found():
    code = f"""
        asked = list(questions())
        if any(question['id'].startswith('inferred/13@') for question in asked): os.abort()
        for question in asked: {ANSWER}
    """
    assert ask(code, count=40)[0] == [*[RIGHT] * 13, "crash", *[RIGHT] * 26]


def test_hang_affects_only_its_query(monkeypatch: pytest.MonkeyPatch):
    code = """
        for question in questions():
            if question['id'].startswith('inferred/{number}'): time.sleep(1000)
            {ANSWER}
    """
    answers, why, _ = ask(code.format(number=1, ANSWER=ANSWER), seconds=0.5)
    assert (answers, why[1]) == ([RIGHT, "hang", RIGHT, RIGHT, RIGHT], "no answer in 0.5 s")
    monkeypatch.setattr(programs, "START_SECONDS", 1)
    assert ask(code.format(number=0, ANSWER=ANSWER), seconds=1)[0] == ["hang", *[RIGHT] * 4]


def test_program_that_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with pytest.raises(ProgramError, match=r"^exit code 1: no such library$"):
        ask("sys.exit('no such library')", count=500)
    with pytest.raises(ProgramError, match=r"^the program ended without a response$"):
        ask("pass", count=100)
    monkeypatch.setattr(programs, "START_SECONDS", 0.5)
    with pytest.raises(ProgramError, match=r"^no answer in 0\.5 s$"):
        ask(f"print(file=open({str(tmp_path / 'starts')!r}, 'a')); time.sleep(1000)", count=100, seconds=0.1)
    assert len((tmp_path / "starts").read_text()) == 2  # one that hangs is asked twice


def test_program_that_reads_nothing_may_answer():
    code = "os.close(0)\nfor number in range(400): tell({'id': f'inferred/{number}@reshape', 'shape': [6]})"
    assert ask(code, count=400)[0] == [RIGHT] * 400


def test_reply_to_endless_output_is_short():
    endless_answer = 'print(end=\'{"id": "inferred/0@reshape", "shape": [\')\nwhile True: print(end=\'1, \' * 65536)'
    for code, failure in (
        (endless_answer, "garbage"),
        ("[sys.stderr.write('y' * 65536) for _ in range(100)]; os.abort()", "crash"),
    ):
        told, why, _ = ask(code)
        assert (set(told), max(map(len, why)) < 1000) == ({failure}, True), code


def test_line_without_a_result_is_garbage():
    for value in (
        "[" * 50_000,
        '{"id": 1}',
        '{"shape": 1' + "0" * 5000 + "}",
        "null",
        "[" * 500 + "]" * 500,
        '{"shape": [6], "more": ' + "[" * 500 + "]" * 500 + "}",
        "\\xff\\xfe",
        '"\\\\ud800"',
    ):
        told, _, _ = ask(f"""
            for number, question in enumerate(questions()):
                sys.stdout.buffer.write(b'''{value}\\n''' if number else b'{{"shape": [6]}}\\n')
        """)
        assert told[0] == RIGHT, value[:40]
        assert all(one == "garbage" or "shape" not in one for one in told[1:]), value[:40]


def test_program_that_ends_early_is_restarted_for_the_rest(tmp_path: Path):
    told, _, _ = ask(f"for number, question in zip(range(2), questions()): {ANSWER}")
    assert told == [RIGHT] * 5
    # One that fails at times is not one that is dead after many answers.
    code = f"""
        if os.path.exists(sys.argv[1]): sys.exit(3)
        for number, question in enumerate(questions()):
            if number == 5: open(sys.argv[1], 'w').close(); sys.exit(3)
            {ANSWER}
    """
    questions = make_questions(200)
    replies = asyncio.run(ProgramAsker((*write_program(code), str(tmp_path / "dead")), 20).ask(questions))
    assert [replies[question.id].record is not None for question in questions] == [True] * 5 + [False] * 195


def test_missing_program_is_an_error():
    with pytest.raises(FileNotFoundError):
        asyncio.run(ProgramAsker(("no-such-program",), 1).ask(make_questions(1)))
