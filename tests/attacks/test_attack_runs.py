"""What is made of what polite clients saw: who was stalled counts, and each bound that is not kept has a name."""

from dataclasses import replace

import pytest

from attack_runs import Row, count_errors, find_misses, find_recovery
from attackers.attacks import MANY, ONE
from polite_clients import Figures, PoliteCall
from quick_attacks import Outcome

GOOD = Row("none", "inline", 1, calls=100, p50_ms=1, p99_ms=9, health_p99_ms=9, base_mib=59, peak_mib=80, exit_code=0)


def test_a_call_that_an_attack_stalls_counts_also_if_it_began_before():
    stalled, before, after = PoliteCall(9.9, 3.0, ""), PoliteCall(8.0, 0.1, ""), PoliteCall(12.5, 0.1, "")

    assert Figures((before, stalled, after)).during(10.0, 12.0).calls == (stalled,)


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        ([PoliteCall(9.0, 0.01, "")], 0.0),
        ([PoliteCall(9.0, 1.5, ""), PoliteCall(10.6, 0.01, "")], 0.5),
        ([PoliteCall(10.1, 0.01, "UNAVAILABLE: "), PoliteCall(10.2, 0.01, "")], 0.11),
        ([PoliteCall(9.0, 0.01, "UNAVAILABLE: ")], 0.0),
    ],
)
def test_the_service_is_back_when_the_last_slow_or_failed_call_is_over(calls: list[PoliteCall], seconds: float):
    assert find_recovery({"raw": Figures(tuple(calls))}, end=10.0) == pytest.approx(seconds)


def test_who_keeps_all_bounds_misses_none():
    assert find_misses(GOOD, ONE) == []


@pytest.mark.parametrize(
    ("row", "miss"),
    [
        (replace(GOOD, p50_ms=51), "p50 ms: 51, not 50"),
        (replace(GOOD, p99_ms=101), "p99 ms: 101, not 100"),
        (replace(GOOD, health_p99_ms=101), "health p99 ms: 101, not 100"),
        (replace(GOOD, recovery_seconds=None), "seconds to recover: inf, not 1"),
        (replace(GOOD, refused=1), "refused: 1, not 0"),
        (replace(GOOD, refused_sdk=1), "refused with the SDK: 1, not 0"),
        (replace(GOOD, lost={"UNAVAILABLE: ": 2}), "lost: 2, not 0"),
        (replace(GOOD, peak_mib=1300), "MiB of memory: 1300, not 1236.6"),
        (replace(GOOD, errors=1), "errors in the log: 1, not 0"),
        (replace(GOOD, exit_code=None), "exit code: None"),
        (replace(GOOD, failure="it did not start"), "it did not start"),
    ],
)
def test_what_is_missed_is_named(row: Row, miss: str):
    assert find_misses(row, ONE) == [miss]


def test_a_crowd_may_have_raw_calls_refused_but_none_of_the_sdk():
    assert find_misses(replace(GOOD, refused=5), MANY) == []
    assert find_misses(replace(GOOD, refused_sdk=1), MANY) == ["refused with the SDK: 1, not 0"]


def test_lines_of_the_core_count_as_errors_where_they_are():
    lines = [
        "I1121 21:35:00.321284   10576 chttp2_transport.cc:1403] ipv4",
        "E1121 21:35:00.322965   10576 hpack_parser.cc:1048] Error parsing",
        "Everything is well",
    ]

    assert count_errors([{"message": line} for line in lines]) == 1
    assert count_errors([{"message": "x", "level": "ERROR"}, {"message": "x", "level": "WARNING"}]) == 1


def test_a_late_machine_excuses_lateness_and_nothing_else():
    late = replace(GOOD, attack="pings", p50_ms=400, recovery_seconds=None)

    assert Outcome(late, lateness=1.0).find_misses() == ["p50 ms: 400, not 250", "seconds to recover: inf, not 5"]
    assert Outcome(late, lateness=3.0).find_misses() == []
    assert Outcome(replace(late, errors=1), lateness=30.0).find_misses() == ["errors in the log: 1, not 0"]
