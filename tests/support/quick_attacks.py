"""Two seconds of an attack, and what polite clients must not notice: what the files `test_quick_...` have in common."""

import math
from collections.abc import Iterable
from dataclasses import replace

from attack_runs import Row, find_misses, run_attacks
from attackers.attacks import ATTACKS

SECONDS = 2.0
SLACK = 5.0
"""The bounds on time are so many times those of the table: other tests run beside these."""


RUNS = 3
"""A machine that other tests keep busy may be late once or twice. What an attack does to others, it does each time."""


def attack_quickly(names: Iterable[str], serving: str, workers: int = 1) -> dict[str, Row]:
    """Attacks one server in each way, one after the other; returns what each did to others, by its name.

    Where nothing is amiss but times, they are measured again.
    """
    attacks = [ATTACKS[name] for name in names]
    if workers == 1:
        # What takes longer to show is that a supervisor takes a worker for dead: a lone server has none.
        attacks = [replace(attack, least_seconds=0) for attack in attacks]
    rows: dict[str, Row] = {}
    for _ in range(RUNS):
        left = [attack for attack in attacks if attack.name not in rows or _is_only_late(rows[attack.name])]
        rows |= {row.attack: row for row in run_attacks(left, serving, workers, SECONDS)}
    return rows


def find_quick_misses(row: Row, slack: float = SLACK) -> list[str]:
    """Returns what polite clients noticed more than they may."""
    return find_misses(row, ATTACKS[row.attack].bounds, slack)


def _is_only_late(row: Row) -> bool:
    return bool(find_quick_misses(row)) and not find_quick_misses(row, math.inf)
