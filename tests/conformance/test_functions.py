"""Python functions as programs."""

from pathlib import Path

import pytest

from conformance_runs import Json, make_question
from tensor_reshape.conformance.functions import answer, find_function
from tensor_reshape.conformance.runs import Program, ask_program, find_function_command
from tensor_reshape.conformance.verdicts import Verdict

CODE = """
import ctypes, os

def answer(question):
    print("a print", flush=True)
    os.system("echo a print of a child")
    {code}

class Mine:
    answer = staticmethod(answer)
"""


def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, name: str = "mine:answer") -> Json | Verdict:
    """Asks a function of a module in the working folder; returns its answer, or how it failed."""
    (folder / "mine.py").write_text(CODE.format(code=code))
    monkeypatch.chdir(folder)
    question = make_question()
    replies, _ = ask_program(Program(find_function_command(name), 60), [question])
    reply = replies[question.id]
    return reply.failure if reply.record is None else reply.record


def test_function_runs_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told = ask(tmp_path, monkeypatch, "question['shape'] = [6]; return {'shape': [6], 'pid': os.getpid()}")
    assert isinstance(told, dict)
    assert (told["id"], told["shape"]) == ("inferred/six@reshape", [6])
    assert ask(tmp_path, monkeypatch, "return {'shape': [6]}", "mine:Mine.answer") == {"id": told["id"], "shape": [6]}


@pytest.mark.parametrize("code", ["os.abort()", "ctypes.string_at(0)", "1 / 0", "raise SystemExit", "return 5"])
def test_failure_of_a_function_has_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str):
    assert ask(tmp_path, monkeypatch, code) in {Verdict.CRASH, Verdict.GARBAGE}


def test_function_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert ask(tmp_path, monkeypatch, "return {}", "mine:nothing") is Verdict.CRASH
    assert find_function("json.decoder:JSONDecoder.decode").__name__ == "decode"


def test_exceptions_count_as_responses():
    def reject(question: Json) -> Json:
        raise ValueError(question["id"])

    def lack(_: Json) -> Json:
        raise NotImplementedError

    assert answer(reject, {"id": "x"}) == {"error": {"message": "x"}}
    assert answer(lack, {}) == {"unsupported": "not implemented"}
