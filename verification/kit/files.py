"""The files of the kit: `conformance/cases/SIZE/RULE.jsonl`, a case a line."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tensor_reshape.rules.records import Json
from verification.kit.core_cases import CORE_CASES

FOLDER = Path(__file__).parents[2] / "conformance"
SIZES: Mapping[str, Mapping[str, Iterable[Json]]] = {"core": CORE_CASES}
"""The cases of each size, by their rule."""


def list_files() -> dict[Path, str]:
    """Returns each file of cases, and what is to be in it."""
    return {
        FOLDER / "cases" / size / f"{rule}.jsonl": "".join(f"{json.dumps(case)}\n" for case in cases)
        for size, rules in SIZES.items()
        for rule, cases in rules.items()
    }
