"""The quick half of `scripts/attack`: two seconds of each kind of attack, and what polite clients must not notice.

The bounds on time are five times those of the table: other tests run beside these.
"""

import pytest

from attack_runs import Row, find_misses, run_attacks
from attackers.attacks import ATTACKS
from attackers.garbage import FORGED_GOAWAY
from frame_runs import run_random_frames
from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection
from server_processes import run_server

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
QUICK_FOR_WORKERS = ("silent-health-checks-16", "silent-calls-16")
SECONDS = 2.0
SLACK = 5.0
CONNECTIONS = 1000


@pytest.fixture(scope="module")
def rows(serving: str) -> dict[tuple[str, int], Row]:
    """What each attack did to others, by its name and the number of workers."""
    return {
        (row.attack, workers): row
        for workers, names in ((1, QUICK), (2, QUICK_FOR_WORKERS))
        for row in run_attacks([ATTACKS[name] for name in names], serving, workers, SECONDS)
    }


@pytest.mark.timeout(300)  # the first one waits for all rows
@pytest.mark.parametrize("name", QUICK)
def test_others_do_not_notice(rows: dict[tuple[str, int], Row], name: str):
    assert find_misses(rows[name, 1], ATTACKS[name].bounds, SLACK) == [], rows[name, 1]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK_FOR_WORKERS)
def test_others_do_not_notice_what_is_done_to_two_workers(rows: dict[tuple[str, int], Row], name: str):
    assert find_misses(rows[name, 2], ATTACKS[name].bounds, SLACK) == [], rows[name, 2]


def test_random_frames_break_nothing(serving: str):
    frames = run_random_frames(serving, CONNECTIONS, "quick")

    assert frames.unreachable < CONNECTIONS
    assert frames.find_misses() == [], frames


def test_a_stranger_writes_no_line_of_the_log(serving: str):
    with run_server("--serving", serving) as server:
        with Connection(server.address) as connection:
            connection.send(FORGED_GOAWAY)
            assert connection.call(HEALTH_CHECK, b"").status in {"0", "CLOSED"}
        server.stop()

    assert [record for record in server.records if "forged" in record["message"]] == []


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_a_server_that_was_sent_garbage_still_ends(serving: str, path: str):
    with run_server("--serving", serving) as server:
        with Connection(server.address) as connection:
            for _ in range(5):  # one more than reflection has threads
                assert connection.call(path, b"\xff\xff").status != "0"
        assert server.stop() == 0
