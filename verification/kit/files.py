"""The files of the kit: `conformance/cases/SIZE/RULE.jsonl`, a case a line."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tensor_reshape.rules.records import Json
from verification.kit.core_cases import CORE_CASES
from verification.kit.made_cases import make_full, make_hostile

FOLDER = Path(__file__).parents[2] / "conformance"


def list_sizes() -> Mapping[str, Mapping[str, Iterable[Json]]]:
    """Returns the cases of each size, by their rule."""
    return {"core": CORE_CASES, "full": make_full(FOLDER / "cases" / "full"), "hostile": make_hostile()}


def list_files() -> dict[Path, str]:
    """Returns each file of cases, and what is to be in it."""
    return {
        FOLDER / "cases" / size / f"{rule}.jsonl": "".join(f"{json.dumps(case)}\n" for case in cases)
        for size, rules in list_sizes().items()
        for rule, cases in rules.items()
    }
