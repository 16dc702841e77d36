"""A second of an attack, and what polite clients must not notice: what the files `test_quick_...` have in common.

Other tests run beside these, so whoever calls may be late whatever is attacked. How late the machine is, is measured at
the same time, and bounds on time are as many times longer.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from attack_runs import Row, find_misses, run_attacks
from attackers.attacks import ATTACKS, Attack
from late_machines import measure_lateness

SECONDS = 1.0
SLACK = 5.0
"""The bounds on time are so many times those of the table: other tests run beside these."""

RUNS = 3
"""A machine that other tests keep busy may be late once or twice. What an attack does to others, it does each time."""

MOST_LATENESS = 2.0
"""Where it is later, calls are slow without an attack: none tells when the last one was over that was slow for it."""


@dataclass(frozen=True)
class Outcome:
    """What an attack did to others.

    Attributes:
        row: what polite clients saw.
        lateness: how many times as long as usual the machine took for anything.
    """

    row: Row
    lateness: float

    def find_misses(self, slack: float = SLACK) -> list[str]:
        """Returns what polite clients noticed more than they may."""
        bounds = ATTACKS[self.row.attack].bounds
        if self.lateness > MOST_LATENESS:
            bounds = bounds._replace(recovery_seconds=math.inf)
        return find_misses(self.row, bounds, slack * self.lateness)

    @property
    def is_only_late(self) -> bool:
        """Whether nothing is amiss but times."""
        return bool(self.find_misses()) and not self.find_misses(math.inf)


def attack_quickly(names: Iterable[str], serving: str, workers: int = 1) -> dict[str, Outcome]:
    """Attacks one server in each way, one after the other; returns what each did to others, by its name.

    Where nothing is amiss but times, they are measured again.
    """
    attacks = [ATTACKS[name] for name in names]
    if workers == 1:
        # What takes longer to show is that a supervisor takes a worker for dead: a lone server has none.
        attacks = [replace(attack, least_seconds=0) for attack in attacks]
    outcomes: dict[str, Outcome] = {}
    for _ in range(RUNS):
        left = [attack for attack in attacks if attack.name not in outcomes or outcomes[attack.name].is_only_late]
        if left:
            outcomes |= {outcome.row.attack: outcome for outcome in _attack_all(left, serving, workers)}
    return outcomes


def _attack_all(attacks: list[Attack], serving: str, workers: int) -> list[Outcome]:
    with measure_lateness() as meter:
        rows = list(run_attacks(attacks, serving, workers, SECONDS))
    return [Outcome(row, meter.find_lateness(row.began, row.ended)) for row in rows]
