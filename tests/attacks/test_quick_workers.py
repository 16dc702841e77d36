"""The quick half of `scripts/attack`: what is done to two workers, whose supervisor must not take them for dead."""

import pytest

from attack_runs import Row
from quick_attacks import attack_quickly, find_quick_misses

ATTACKS = ("silent-health-checks-16", "silent-calls-16")


@pytest.fixture(scope="module")
def rows(serving: str) -> dict[str, Row]:
    return attack_quickly(ATTACKS, serving, workers=2)


@pytest.mark.timeout(900)  # the first one waits for all rows, measured again where need be
@pytest.mark.parametrize("name", ATTACKS)
def test_others_do_not_notice(rows: dict[str, Row], name: str):
    assert find_quick_misses(rows[name]) == [], rows[name]
