"""The quick half of `scripts/attack`: frames and calls that cost their sender nothing."""

import pytest

from quick_attacks import Outcome, attack_quickly

ATTACKS = ("control-frames", "rapid-resets", "early-header-bombs", "garbled-others")


@pytest.fixture(scope="module")
def outcomes(serving: str) -> dict[str, Outcome]:
    return attack_quickly(ATTACKS, serving)


@pytest.mark.timeout(900)  # the first one waits for all rows, measured again where need be
@pytest.mark.parametrize("name", ATTACKS)
def test_others_do_not_notice(outcomes: dict[str, Outcome], name: str):
    assert outcomes[name].find_misses() == [], outcomes[name]
