"""Two seconds of an attack, and what polite clients must not notice: what the files `test_quick_...` have in common.

Other tests run beside these, so whoever calls may be late whatever is attacked. How late shows a control: a client of
another server, which nobody attacks, at the same time. No bound on time is shorter than what that one sees.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from attack_runs import SLOW_SECONDS, Row, find_misses, run_attacks
from attackers.attacks import ATTACKS, Attack, Interval
from polite_clients import Figures, run_polite_clients
from server_processes import run_server

SECONDS = 2.0
SLACK = 5.0
"""The bounds on time are so many times those of the table, or what the control sees."""

RUNS = 3
"""A machine that other tests keep busy may be late once or twice. What an attack does to others, it does each time."""


@dataclass(frozen=True)
class Outcome:
    """What an attack did to others.

    Attributes:
        row: what those saw whose server was attacked.
        control: what a client saw at the same time whose server was not.
    """

    row: Row
    control: Figures

    def find_misses(self, slack: float = SLACK) -> list[str]:
        """Returns what polite clients noticed more than they may."""
        return find_misses(self.row, loosen(ATTACKS[self.row.attack].bounds, self.control), slack)

    @property
    def is_only_late(self) -> bool:
        """Whether nothing is amiss but times."""
        return bool(self.find_misses()) and not self.find_misses(math.inf)


def loosen(bounds: Interval, control: Figures) -> Interval:
    """Returns bounds none of which is shorter than what the control saw."""
    if not control.calls:
        return bounds
    p50, p99 = (control.find_quantile(share) * 1000 for share in (0.5, 0.99))
    return bounds._replace(
        p50_ms=max(bounds.p50_ms, p50),
        p99_ms=max(bounds.p99_ms, p99),
        health_p99_ms=max(bounds.health_p99_ms, p99),
        # Where calls are slow without an attack, none tells when the last one was over that was slow because of it.
        recovery_seconds=math.inf if p99 > SLOW_SECONDS * 1000 else bounds.recovery_seconds,
    )


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
            outcomes |= {outcome.row.attack: outcome for outcome in _attack_beside_control(left, serving, workers)}
    return outcomes


def _attack_beside_control(attacks: list[Attack], serving: str, workers: int) -> list[Outcome]:
    with run_server("--serving", serving) as server, run_polite_clients(server.address, ("raw",)) as clients:
        rows = list(run_attacks(attacks, serving, workers, SECONDS))
        control = clients.stop()["raw"]
    return [Outcome(row, control.during(row.began, row.ended)) for row in rows]
