"""The quick half of `scripts/attack`: what is done to two workers, whose supervisor must not take them for dead."""

import pytest

from quick_attacks import Outcome, attack_quickly

ATTACKS = ("silent-health-checks-16", "silent-calls-16")


@pytest.fixture(scope="module")
def outcomes(serving: str) -> dict[str, Outcome]:
    return attack_quickly(ATTACKS, serving, workers=2)


@pytest.mark.timeout(900)  # the first one waits for all rows, measured again where need be
@pytest.mark.parametrize("name", ATTACKS)
def test_others_do_not_notice(outcomes: dict[str, Outcome], name: str):
    assert outcomes[name].find_misses() == [], outcomes[name]
