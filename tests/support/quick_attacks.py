"""Two seconds of an attack, and what polite clients must not notice: what the files `test_quick_...` have in common."""

from collections.abc import Iterable
from dataclasses import replace

from attack_runs import Row, find_misses, run_attacks
from attackers.attacks import ATTACKS

SECONDS = 2.0
SLACK = 5.0
"""The bounds on time are so many times those of the table: other tests run beside these."""


def attack_quickly(names: Iterable[str], serving: str, workers: int = 1) -> dict[str, Row]:
    """Attacks one server in each way, one after the other; returns what each did to others, by its name."""
    attacks = [ATTACKS[name] for name in names]
    if workers == 1:
        # What takes longer to show is that a supervisor takes a worker for dead: a lone server has none.
        attacks = [replace(attack, least_seconds=0) for attack in attacks]
    return {row.attack: row for row in run_attacks(attacks, serving, workers, SECONDS)}


def find_quick_misses(row: Row) -> list[str]:
    """Returns what polite clients noticed more than they may."""
    return find_misses(row, ATTACKS[row.attack].bounds, SLACK)
