"""The cases of the suite. `conformance/cases/SIZE/RULE.jsonl` is their source, with one case in each line."""

import json
from collections.abc import Iterable
from pathlib import Path

from tensor_reshape.wire.json_messages import Json
from verification.kit.answers import REJECTED, compute_result
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
    """Returns whether the rules now give another result for a query of a case."""
    results = _compute_results(case)
    # An execution rejects without a reason.
    return any(one != case["result"] and (one != REJECTED or "rejection" not in case["result"]) for one in results)


def renew(cases: Iterable[Json]) -> str:
    """Returns the text of a file whose cases have the answers of the rules, if all operations have the same answer."""
    lines = []
    for case in cases:
        results = _compute_results(case)
        is_changed = is_stale(case) and results == results[:1] * len(results)
        lines.append(json.dumps({**case, "result": results[0]} if is_changed else case))
    return "".join(f"{line}\n" for line in lines)


def _compute_results(case: Json) -> list[Json]:
    return [compute_result(question, case["rule"]) for question in list_questions(case)]
