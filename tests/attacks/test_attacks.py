"""Some attacks of `scripts/verify attack`, one second each, must not affect well-behaved clients.

Other tests run at the same time, so calls may be late even without an attack. The tests measure how late the machine
is, and multiply the bounds of times by that factor.
"""

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from attack_runs import Row, count_errors, find_recovery, run_attacks
from attacks import ATTACKS, MANY, ONE, ONE_ADDRESS
from documents import ROOT
from meters import measure_lateness
from proxies import EDGES, Proxy
from server_processes import run_server
from steady_clients import Figures, SteadyCall, run_steady_clients

QUICK = (
    "silent-health-checks",
    "silent-calls-16",
    "silent-calls-40",
    "silent-calls-16-shared",
    "stalled-streams-40",
    "health-watches-40",
    "silent-call-200",
    "trickling-call-200",
    "large-trickling-call-64",
    "slow-posts",
    "slow-headers",
    "idle-http-connections",
    "pipelined-requests-16",
    "large-http-headers-16",
    "large-http-bodies-4",
    "large-http-chunks-4",
    "endless-chunks-16",
    "half-closed-requests-16",
    "long-json-responses",
    "empty-partial-dims-16",
    "small-calls-16",
    "zero-windows",
    "linked-batches",
    "odd-strides",
    "disconnects",
    "random-frames-16",
)
"""Attacks that the server withstands without a proxy."""
EDGE_QUICK = (
    "full-connections",
    "window-updates",
    "control-frames",
    "rapid-resets",
    "rapid-resets-16",
    "many-headers",
    "header-bombs",
    "early-small-bombs",
    "early-small-bombs-16",
    "silent-call-200",
    "trickling-call-200",
)
"""Attacks that need a proxy, and other attacks that a proxy stops."""
SLACK = 5.0
"""Factor for all bounds of times, because other tests run at the same time."""
RUNS = 3
"""Number of attempts. Other tests may make the machine late once or twice, but an attack has its effect each time."""
MOST_LATENESS = 2.0
"""Largest lateness with which times are checked. Above it, calls are slow without an attack.

Memory, rejected and lost calls, errors and exit codes are checked with any lateness.
"""
PAGE = ROOT / "docs/attacks/README.md"
GOOD = Row("no-attack", calls=100, p50_ms=1, p99_ms=9, health_p99_ms=9, base_mib=59, peak_mib=80)


def attack_all(
    names: tuple[str, ...], *flags: str, proxy: Proxy | None = None, seconds: float = 1.0
) -> dict[str, list[str]]:
    """Returns the exceeded bounds of each attack. If only times exceed their bounds, it makes another attempt."""
    missed = {name: ["not run"] for name in names}
    late = set(names)
    for _ in range(RUNS):
        with measure_lateness() as meter:
            # Attacks last longer only to show that a supervisor kills a worker, which a server without workers cannot.
            attacks = [ATTACKS[name]._replace(least_seconds=0) for name in names if name in late]
            rows = list(run_attacks(attacks, seconds, *flags, proxy=proxy))
        for row in rows:
            lateness, bounds = meter.find_lateness(row.began, row.ended), ATTACKS[row.attack].bounds
            slack = SLACK * lateness if lateness <= MOST_LATENESS else math.inf
            missed[row.attack] = row.find_misses(bounds, slack)
            if not missed[row.attack] or row.find_misses(bounds, math.inf):
                late.discard(row.attack)
        if not late:
            break
    return {name: misses for name, misses in missed.items() if misses}


@pytest.mark.timeout(900)  # some attacks may need several attempts
def test_steady_clients_keep_their_latency_during_each_attack():
    assert attack_all(QUICK) == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("proxy", EDGES, ids=lambda proxy: proxy.name)
def test_steady_clients_keep_their_latency_during_attacks_behind_a_proxy(proxy: Proxy):
    proxy.require()
    # Envoy reads 400,000 references before it rejects them, which occupies its threads: see docs/attacks.
    names = tuple(name for name in EDGE_QUICK if (proxy.name, name) != ("envoy", "early-small-bombs-16"))
    assert attack_all(names, proxy=proxy) == {}


@pytest.mark.timeout(900)
def test_supervisor_kills_no_worker_during_an_attack():
    name = "silent-health-checks-16"
    assert attack_all((name,), "--workers", "2", seconds=ATTACKS[name].least_seconds) == {}


def test_attacks_page_has_a_row_for_every_kind_of_attack():
    rows = re.findall(r"^\| `(\S+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    variants = {attack.name for attack in ONE_ADDRESS if attack.connections > 1 or attack.has_shared_address}
    assert dict(rows) == {name: attack.sentence for name, attack in ATTACKS.items() if name not in variants}


def test_clients_report_unavailable_when_the_server_is_killed():
    with run_server() as server, run_steady_clients(server.address, ("raw", "health")) as clients:
        server.process.kill()
        clients.await_call(lambda call: "UNAVAILABLE" in call.failure)


def test_measured_calls_include_those_started_before_the_attack():
    stalled, before, after = SteadyCall(9.9, 3.0, ""), SteadyCall(8.0, 0.1, ""), SteadyCall(12.5, 0.1, "")
    seen = Figures((before, stalled, after))

    assert seen.during(10.0, 12.0).calls == (stalled,)
    assert find_recovery({"raw": seen}, end=10.0) == pytest.approx(2.9)


def test_attack_result_reports_each_exceeded_limit():
    bad: dict[str, Any] = {
        "p50_ms": 51,
        "p99_ms": 101,
        "health_p99_ms": 101,
        "http_p99_ms": 101,
        "recovery_seconds": math.inf,
        "rejected": 1,
        "rejected_sdk": 1,
        "peak_mib": 1300,
        "errors": 1,
        "exit_code": -9,
        "failure": "it did not start",
    }
    assert GOOD.find_misses(ONE) == []
    assert [name for name, value in bad.items() if len(replace(GOOD, **{name: value}).find_misses(ONE)) != 1] == []
    assert replace(GOOD, rejected=5).find_misses(MANY) == []
    lines = ["I1121 21:35:00.321284   10576 chttp2_transport.cc:1403]", "E1121 21:35:00.322965   10576 hpack.cc:1048]"]
    assert count_errors([*({"message": line} for line in lines), {"message": "x", "level": "ERROR"}]) == 2
