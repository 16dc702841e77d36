"""The quick half of `scripts/attack`: who begins calls and says no more, on one connection and on many."""

import pytest

from attack_runs import Row
from quick_attacks import attack_quickly, find_quick_misses

ATTACKS = ("silent-21-calls", "silent-health-checks-16", "trickling-streams")


@pytest.fixture(scope="module")
def rows(serving: str) -> dict[str, Row]:
    return attack_quickly(ATTACKS, serving)


@pytest.mark.timeout(900)  # the first one waits for all rows, measured again where need be
@pytest.mark.parametrize("name", ATTACKS)
def test_others_do_not_notice(rows: dict[str, Row], name: str):
    assert find_quick_misses(rows[name]) == [], rows[name]
