"""The core: every boundary of every rule, in cases that a person can read."""

from verification.kit.error_cases import ERRORS
from verification.kit.known_cases import ADMITTED, COPIES, EXPECTED, INFERRED, TARGET, VOLUME
from verification.kit.layout_cases import LAYOUTS
from verification.kit.packed_cases import PACKED
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
    "layouts": LAYOUTS,
    "packed": PACKED,
    "errors": ERRORS,
}
"""The rows of each rule."""

CORE_CASES = {rule: [make_case(rule, row) for row in rows] for rule, rows in CORE.items()}
