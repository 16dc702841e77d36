"""The core: every boundary of every rule, in cases that a person can read."""

from verification.kit.known_cases import ADMITTED, COPIES, EXPECTED, INFERRED, TARGET, VOLUME
from verification.kit.partial_cases import PARTIAL
from verification.kit.rows import make_case
from verification.kit.symbol_cases import SYMBOLS

CORE = {
    "admitted": ADMITTED,
    "target": TARGET,
    "inferred": INFERRED,
    "copies": COPIES,
    "volume": VOLUME,
    "expected": EXPECTED,
    "partial": PARTIAL,
    "symbols": SYMBOLS,
}
"""The rows of each rule."""

CORE_CASES = {rule: [make_case(rule, row) for row in rows] for rule, rows in CORE.items()}
