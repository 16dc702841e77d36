"""The quick half of `scripts/attack`: two seconds of each kind of attack, and what polite clients must not notice.

The bounds on time are five times those of the table: other tests run beside these.
"""

import pytest

from attack_runs import find_misses, run_attack
from attackers.attacks import ATTACKS
from frame_runs import run_random_frames

QUICK = (
    "silent-21-calls",
    "silent-health-checks-16",
    "trickling-streams",
    "zero-windows",
    "control-frames",
    "rapid-resets",
    "odd-strides",
    "linked-batches",
    "garbled-others",
)
SECONDS = 2.0
SLACK = 5.0
CONNECTIONS = 1000


@pytest.mark.parametrize("name", QUICK)
def test_others_do_not_notice(serving: str, name: str):
    row = run_attack(ATTACKS[name], serving, workers=1, seconds=SECONDS)

    assert find_misses(row, ATTACKS[name].bounds, SLACK) == [], row


@pytest.mark.parametrize("name", ["silent-health-checks-16", "silent-calls-16"])
def test_others_do_not_notice_what_is_done_to_two_workers(serving: str, name: str):
    row = run_attack(ATTACKS[name], serving, workers=2, seconds=SECONDS)

    assert find_misses(row, ATTACKS[name].bounds, SLACK) == [], row


def test_random_frames_break_nothing(serving: str):
    frames = run_random_frames(serving, CONNECTIONS, "quick")

    assert frames.unreachable < CONNECTIONS
    assert frames.find_misses() == [], frames
