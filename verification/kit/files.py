"""The cases of the suite. `conformance/cases/SIZE/RULE.jsonl` is their source, with one case in each line."""

import json
from collections.abc import Iterable
from pathlib import Path

from tensor_reshape.rules.json_format import Json
from verification.kit.answers import REJECTED, compute_answer
from verification.kit.questions import list_questions

FOLDER = Path(__file__).parents[2] / "conformance"
SIZES = ("core", "full", "hostile")


def list_files(size: str = "*") -> list[Path]:
    """Returns the files of a size, or of all."""
    return sorted((FOLDER / "cases").glob(f"{size}/*.jsonl"))


def read_cases(path: Path) -> list[Json]:
    """Returns the cases of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_size(size: str) -> list[Json]:
    """Returns the cases of a size."""
    return [case for path in list_files(size) for case in read_cases(path)]


def is_stale(case: Json) -> bool:
    """Returns whether the rules now give another answer to a query of a case."""
    answers = map(compute_answer, list_questions(case))
    # An execution rejects without a reason.
    return any(answer != case["answer"] and (answer != REJECTED or "error" not in case["answer"]) for answer in answers)


def renew(cases: Iterable[Json]) -> str:
    """Returns the text of a file whose cases have the answers of the rules, if all operations have the same answer."""
    lines = []
    for case in cases:
        answers = [compute_answer(question) for question in list_questions(case)]
        is_changed = is_stale(case) and answers == answers[:1] * len(answers)
        lines.append(json.dumps({**case, "answer": answers[0]} if is_changed else case))
    return "".join(f"{line}\n" for line in lines)
