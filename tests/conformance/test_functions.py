"""Python functions as programs."""

from pathlib import Path

import pytest

from conformance_runs import Json, make_case
from tensor_reshape.conformance.functions import answer, load_function
from tensor_reshape.conformance.programs import build_function_command, run_program
from tensor_reshape.conformance.verdicts import CaseVerdict

CODE = """
import ctypes, os

def answer(query):
    print("a print", flush=True)
    os.system("echo a print of a child")
    {code}

class Mine:
    answer = staticmethod(answer)
"""


def run_function(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, name: str = "mine:answer"
) -> Json | CaseVerdict:
    """Calls a function of a module in the working folder; returns its answer, or the verdict of its failure."""
    (folder / "mine.py").write_text(CODE.format(code=code))
    monkeypatch.chdir(folder)
    case = make_case()
    replies, _ = run_program(build_function_command(name), [case], 60)
    reply = replies[case.id]
    return reply.failure if reply.record is None else reply.record


def test_conformance_function_runs_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    record = run_function(tmp_path, monkeypatch, "query['id'] = 6; return {'answer': {}, 'pid': os.getpid()}")
    assert isinstance(record, dict)
    assert (record["id"], record["answer"]) == ("inferred/six@reshape", {})
    again = run_function(tmp_path, monkeypatch, "return {'answer': {}}", "mine:Mine.answer")
    assert again == {"id": record["id"], "answer": {}}


@pytest.mark.parametrize("code", ["os.abort()", "ctypes.string_at(0)", "1 / 0", "raise SystemExit", "return 5"])
def test_failing_conformance_function_gets_a_crash_or_garbage_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
):
    assert run_function(tmp_path, monkeypatch, code) in {CaseVerdict.CRASH, CaseVerdict.GARBAGE}


def test_conformance_function_is_loaded_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert run_function(tmp_path, monkeypatch, "return {}", "mine:nothing") is CaseVerdict.CRASH
    assert load_function("json.decoder:JSONDecoder.decode").__name__ == "decode"


def test_exceptions_of_a_conformance_function_count_as_answers():
    def reject(query: Json) -> Json:
        raise ValueError(query["id"])

    def lack(_: Json) -> Json:
        raise NotImplementedError

    assert answer(reject, {"id": "x"}) == {"rejection": {"message": "x"}}
    assert answer(lack, {}) == {"unsupported": "not implemented"}
