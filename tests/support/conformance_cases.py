"""The cases that the real libraries answered (`tests/conformance/*.jsonl`)."""

import json
from pathlib import Path
from typing import Any

Case = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "conformance"

OPERATIONS = {"static_reshape": "static_reshape", "dynamic_reshape": "dynamic_reshape", "reshape_v1": "reshape"}
"""The names of the operations: in the cases, and here."""


def load_cases(file: str) -> list[Case]:
    """Returns every case of one file."""
    return [json.loads(line) for line in (FOLDER / file).read_text().splitlines()]


def load_known_cases(operation: str) -> list[Case]:
    """Returns the reshape cases of one operation whose data and target are fully known."""
    cases = load_cases("reshape_cases.jsonl")
    return [case for case in cases if OPERATIONS[case["op"]] == operation and _is_known(case)]


def _is_known(case: Case) -> bool:
    return _are_known(case["data"]) and _are_known(case["target"])


def _are_known(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, int) for item in items)
