"""The cases of the conformance suite (`conformance/cases`), and the cases with recorded results of real libraries."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tensor_reshape.conformance.cases import read_case_question
from tensor_reshape.conformance.verdicts import GivenShape, read_answer
from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer
from tests.oracles.shape_instances import ask
from verification.kit import is_known, list_questions

Case = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "conformance" / "cases"


@cache
def load_cases() -> list[Case]:
    """Returns every case of the suite."""
    files = sorted(FOLDER.rglob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def load_recorded(*series: str) -> list[Case]:
    """Returns the cases of some series that a library answered. Each has one operation and `recorded`."""
    found = (case for case in load_cases() if "recorded" in case)
    return [case for case in found if case["id"].partition("/")[2].partition("-")[0] in series]


def load_known_cases(operation: str) -> list[Case]:
    """Returns the recorded reshapes of one operation with known data and a known target."""
    cases = load_recorded("sr", "dr", "rv")
    return [case for case in cases if case["operations"] == [f"OPERATION_{operation.upper()}"] and is_known(case)]


def load_partial_cases() -> list[Case]:
    """Returns the recorded reshapes that are partially unknown."""
    return [case for case in load_recorded("sr", "dr", "rv") if not is_known(case)]


def list_all_questions() -> Iterator[tuple[Case, Case]]:
    """Yields each case of the suite with each of its queries."""
    return ((case, question) for case in load_cases() for question in list_questions(case))


def read_partial_case(case: Case) -> AnyQuestion:
    """Returns the query of a case that has one operation."""
    (question,) = list_questions(case)
    return read_case_question(question)


def infer_case(case: Case) -> ShapeAnswer | None:
    """Returns the answer of a case, or None for a rejection."""
    return ask(read_partial_case(case))


def read_recorded(case: Case) -> GivenShape | None:
    """Returns the answer of a library, or None for a rejection."""
    parts = {key: case["recorded"][key] for key in ("answer", "rejection") if key in case["recorded"]}
    answer = read_answer(parts)
    return answer if isinstance(answer, GivenShape) else None


def find_wider(dims: Sequence[AnyDim] | None, want: Sequence[AnyDim] | None) -> str:
    """Returns the parts of an answer that are wider than expected; empty if none is."""
    if dims is None or want is None:
        return "" if want is None else "the rank is unknown"
    if len(dims) != len(want):
        return f"the rank is {len(dims)}, not {len(want)}"
    for index, (dim, other) in enumerate(zip(dims, want, strict=True)):
        have, most = find_bounds(dim), find_bounds(other)
        if have.meet(most) != have:
            return f"dim {index} is {have}, not {most}"
    return ""


def count_tighter() -> Counter[str]:
    """Returns how many answers to partial cases are as narrow as those of the libraries, narrower, or wider."""
    counts = Counter({"wider": 0})
    for case in load_partial_cases():
        counts[_compare(infer_case(case), read_recorded(case))] += 1
    return counts


def _compare(answer: ShapeAnswer | None, want: GivenShape | None) -> str:
    if want is None:
        return "rejected by both" if answer is None else "wider"
    if answer is None:
        return "strictly tighter: rejected, for no instance is accepted"
    if find_wider(answer.dims, want.dims):
        return "wider"
    if answer.dims is None or want.dims is None:
        return "the same" if answer.dims is None else "strictly tighter: a rank"
    same = [find_bounds(dim) for dim in answer.dims] == [find_bounds(dim) for dim in want.dims]
    return "the same" if same else "strictly tighter: a narrower dim"
