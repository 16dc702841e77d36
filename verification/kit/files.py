"""The cases of each size by their rule, and their files: `conformance/cases/SIZE/RULE.jsonl`, a case a line."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tensor_reshape.rules.records import Json
from verification.kit.error_cases import ERRORS
from verification.kit.known_cases import ADMITTED, COPIES, EXPECTED, INFERRED, TARGET, VOLUME
from verification.kit.layout_cases import LAYOUTS
from verification.kit.made_cases import make_full, make_hostile
from verification.kit.packed_cases import PACKED
from verification.kit.partial_cases import PARTIAL
from verification.kit.rows import make_case
from verification.kit.symbol_cases import SYMBOLS

FOLDER = Path(__file__).parents[2] / "conformance"
_CORE = {
    "admitted": ADMITTED,
    "target": TARGET,
    "inferred": INFERRED,
    "copies": COPIES,
    "volume": VOLUME,
    "expected": EXPECTED,
    "partial": PARTIAL,
    "symbols": SYMBOLS,
    "layouts": LAYOUTS,
    "packed": PACKED,
    "errors": ERRORS,
}
CORE_CASES = {rule: [make_case(rule, row) for row in rows] for rule, rows in _CORE.items()}
"""Every boundary of every rule, in cases that a person can read."""


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
