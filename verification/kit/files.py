"""The cases of the kit: `conformance/cases/SIZE/RULE.jsonl` has them, a case a line, and is where they are written."""

import json
from collections.abc import Iterable
from pathlib import Path

from tensor_reshape.rules.json_format import Json
from verification.kit.answers import REJECTED, answer_rightly
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
    """Whether the rules answer a question of a case otherwise than it says."""
    answers = map(answer_rightly, list_questions(case))
    # An execution does not tell why it rejects.
    return any(answer != case["answer"] and (answer != REJECTED or "error" not in case["answer"]) for answer in answers)


def renew(cases: Iterable[Json]) -> str:
    """Returns the text of a file whose cases have the answers of the rules, where all operations answer alike."""
    lines = []
    for case in cases:
        answers = [answer_rightly(question) for question in list_questions(case)]
        is_changed = is_stale(case) and answers == answers[:1] * len(answers)
        lines.append(json.dumps({**case, "answer": answers[0]} if is_changed else case))
    return "".join(f"{line}\n" for line in lines)
