"""Real programs that are asked: whatever they do, each question has its reply."""

from pathlib import Path

import pytest

from conformance_runs import RIGHT, ask, make_questions, write_program
from tensor_reshape.conformance import programs
from tensor_reshape.conformance.programs import ProgramAsker


@pytest.fixture(autouse=True)
def few_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a program given up sooner: each failure is a process or two."""
    monkeypatch.setattr(programs, "_MAX_FAILURES", 3)


def test_answers_are_told_apart_by_their_ids_in_any_order():
    code = (
        "for question in reversed(list(questions())): tell({'id': question['id'], 'shape': [int(question['id'][9])]})"
    )
    assert ask(code)[0] == [{"shape": [number]} for number in range(5)]


def test_answers_without_ids_are_those_of_the_questions_in_their_order():
    assert ask("for number, question in enumerate(questions()): tell({'shape': [number]})")[0] == [
        {"shape": [number]} for number in range(5)
    ]


def test_in_order_a_line_that_is_no_json_has_its_place():
    told, why, _ = ask("for number, _ in enumerate(questions()): print('{oh' if number == 2 else '{\"shape\": [6]}')")
    assert told == [RIGHT, RIGHT, "garbage", RIGHT, RIGHT]
    assert why[2] == "no JSON object: {oh"


def test_beside_ids_other_lines_are_prints_of_a_library():
    code = """
        print("loading", [1], flush=True)
        for question in questions(): print("warning"); tell({'id': question['id'], 'shape': [6]}); tell({'id': 'x'})
    """
    assert ask(code)[0] == [RIGHT] * 5


def test_a_program_tells_what_it_is():
    code = """
        tell({'implementation': {'name': 'mine', 'versions': {'lib': '1'}}})
        for question in questions(): tell({'shape': [6]})
    """
    told, _, asker = ask(code)
    assert (told, asker.introduction) == ([RIGHT] * 5, {"name": "mine", "versions": {"lib": "1"}})


CRASHES = {
    "an abort": ("os.abort()", "SIGABRT"),
    "a signal": ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "an exit code": ("sys.exit(7)", "exit code 7"),
    "an exception": ("print('1\\n2', 1 / 0)", "exit code 1: ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_is_the_reply_to_its_question_and_the_run_goes_on(crash: str):
    code, told = CRASHES[crash]
    answers, why, _ = ask(f"""
        for question in questions():
            if question['id'].startswith('inferred/2'): {code}
            tell({{'id': question['id'], 'shape': [6]}})
    """)
    assert (answers, why[2]) == ([RIGHT, RIGHT, "crash", RIGHT, RIGHT], told)


def test_a_crash_of_a_program_that_reads_all_first_is_found_as_well():
    answers, _, _ = ask(
        """
        asked = list(questions())
        if any(question['id'].startswith('inferred/13@') for question in asked): os.abort()
        for question in asked: tell({'id': question['id'], 'shape': [6]})
        """,
        count=40,
    )
    assert answers == [*[RIGHT] * 13, "crash", *[RIGHT] * 26]


def test_a_hang_is_the_reply_to_its_question_and_the_run_goes_on():
    code = """
        for question in questions():
            if question['id'].startswith('inferred/1'): time.sleep(1000)
            tell({'id': question['id'], 'shape': [6]})
    """
    answers, why, _ = ask(code, seconds=0.5)
    assert (answers, why[1]) == ([RIGHT, "hang", RIGHT, RIGHT, RIGHT], "no answer in 0.5 s")


def test_a_program_that_crashes_on_all_is_not_asked_for_ever():
    told, why, _ = ask("sys.exit('no such library')", count=500)
    assert set(told) == {"crash"}
    assert set(why) == {"exit code 1: no such library"}


def test_a_program_that_ends_without_a_word_has_no_answers():
    told, why, _ = ask("pass", count=100)
    assert (set(told), set(why)) == ({"garbage"}, {"the program ended without an answer"})


def test_a_program_that_hangs_on_all_is_given_up_when_it_was_asked_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(programs, "START_SECONDS", 0.5)
    code = f"print(file=open({str(tmp_path / 'starts')!r}, 'a')); time.sleep(1000)"
    told, why, _ = ask(code, count=100, seconds=0.1)
    assert (set(told), set(why)) == ({"hang"}, {"no answer in 0.5 s"})
    assert len((tmp_path / "starts").read_text()) == 2


def test_a_program_that_hangs_on_its_first_question_answers_the_rest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "START_SECONDS", 1)
    code = """
        for question in questions():
            if question['id'].startswith('inferred/0'): time.sleep(1000)
            tell({'id': question['id'], 'shape': [6]})
    """
    assert ask(code, seconds=1)[0] == ["hang", *[RIGHT] * 4]


def test_a_program_that_reads_nothing_may_answer_all_the_same():
    code = "os.close(0)\nfor number in range(400): tell({'id': f'inferred/{number}@reshape', 'shape': [6]})"
    assert ask(code, count=400)[0] == [RIGHT] * 400


def test_wrong_ids_answer_nothing():
    told, why, _ = ask("for question in questions(): tell({'id': 'x' + question['id'], 'shape': [6]})")
    assert set(told) == {"garbage"}
    assert 'it wrote {"id": "xinferred/' in why[-1]


def test_an_id_is_answered_once():
    code = "for question in questions(): [tell({'id': question['id'], 'shape': [n]}) for n in (6, 7)]"
    assert ask(code)[0] == [RIGHT] * 5


def test_what_is_kept_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "MAX_ANSWER_BYTES", 250)
    told, why, _ = ask("for question in questions(): tell({'id': question['id'], 'shape': [6], 'more': 'x' * 50})")
    assert told == [*[{**RIGHT, "more": "x" * 50}] * 2, *["garbage"] * 3]
    assert why[2] == "its answers have more than 250 bytes together"


ENDLESS = {
    "lines": "for question in questions():\n    while True: print('y')",
    "one line": "while True: sys.stdout.write('y' * 65536)",
    "an answer of gigabytes": """
        sys.stdout.write('{"id": "inferred/0@reshape", "shape": [')
        while True: sys.stdout.write('1, ' * 65536)
    """,
    "standard error, then silence": "[sys.stderr.write('y' * 65536) for _ in range(100)]; os.abort()",
}


@pytest.mark.parametrize("endless", ENDLESS)
def test_output_without_end_is_bounded(endless: str):
    told, why, _ = ask(ENDLESS[endless])
    assert set(told) <= {"garbage", "crash"}
    assert max(map(len, why)) < 1000


@pytest.mark.parametrize(
    "value",
    [
        "[" * 50_000,
        '{"id": 1}',
        '{"shape": 1' + "0" * 5000 + "}",
        "null",
        "[" * 500 + "]" * 500,
        '{"shape": [6], "more": ' + "[" * 500 + "]" * 500 + "}",
        "\\xff\\xfe",
        '"\\\\ud800"',
    ],
    ids=repr,
)
def test_what_is_no_answer_is_garbage_wherever_it_stands(value: str):
    code = f"""
        for number, question in enumerate(questions()):
            sys.stdout.buffer.write(b'''{value}\\n''' if number else b'{{"shape": [6]}}\\n')
    """
    told, _, _ = ask(code)
    assert told[0] == RIGHT
    assert all(one == "garbage" or "shape" not in one for one in told[1:])


def test_a_program_that_came_to_its_end_is_asked_the_rest_anew():
    told, _, _ = ask("for number, question in zip(range(2), questions()): tell({'id': question['id'], 'shape': [6]})")
    assert told == [RIGHT] * 5


def test_one_that_dies_after_many_answers_is_told_from_one_that_fails_at_times(tmp_path: Path):
    code = """
        if os.path.exists(sys.argv[1]): sys.exit(3)
        for number, question in enumerate(questions()):
            if number == 5: open(sys.argv[1], 'w').close(); sys.exit(3)
            tell({'id': question['id'], 'shape': [6]})
    """
    questions = make_questions(200)
    replies = ProgramAsker((*write_program(code), str(tmp_path / "dead")), 20).ask(questions)
    assert [replies[question.id].record is not None for question in questions] == [True] * 5 + [False] * 195


def test_a_program_that_is_not_there_is_a_mistake():
    with pytest.raises(FileNotFoundError):
        ProgramAsker(("no-such-program",), 1).ask(make_questions(1))
