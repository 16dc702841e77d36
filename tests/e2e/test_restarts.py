"""Servers that go away and come back under load: no call of the SDK is lost, and none waits longer than it must."""

import signal
import sys
from collections.abc import Callable

import pytest

from interruptions import Figures, run_kills, run_restarts
from replicas import run_replicas, serve_tls
from retry_floods import run_flood

KINDS = {"unary", "stream", "asyncio", "asyncio stream"}
REST_SECONDS = 0.02  # between two calls of a caller: the other tests are to have something of the machine, too
CLIENTS, RETRIES = 10, 50  # each client's, half of the tokens of its budget
RUNS = 3
"""A busy machine may wake a caller late once or twice; a caller that waits longer than it must does so each time."""


def run_until_punctual(run: Callable[[], Figures]) -> Figures:
    """Runs; again, where no call has failed but one has taken too long."""
    for _ in range(RUNS):
        figures = run()
        if figures.failures or not figures.find_problems():
            break
    return figures


def test_a_lone_server_that_restarts_again_and_again_loses_no_call(serving: str):
    figures = run_until_punctual(lambda: run_restarts(4, "--serving", serving, "--drain-seconds", "0.2"))
    assert figures.find_problems() == [], figures
    assert set(figures.calls) == KINDS


def test_of_two_replicas_one_is_restarted_and_the_other_killed_and_no_call_is_lost(serving: str):
    endings, flags = (signal.SIGTERM, signal.SIGKILL), ("--serving", serving, "--drain-seconds", "0.5")
    figures = run_until_punctual(lambda: run_replicas(endings, 0, *flags, every_seconds=0.5, rest_seconds=REST_SECONDS))
    assert figures.find_problems() == [], figures
    assert (set(figures.calls), figures.interruptions) == (KINDS, len(endings))


def test_a_rolling_restart_over_tls_loses_no_call():
    with serve_tls() as (flags, settings):
        figures = run_until_punctual(
            lambda: run_replicas((signal.SIGTERM,), 0, *flags, every_seconds=0.5, rest_seconds=REST_SECONDS, **settings)
        )
    assert figures.find_problems() == [], figures
    assert set(figures.calls) == KINDS


def test_a_server_that_is_busy_is_asked_little_more_than_once_for_each_call_and_answers_all_when_it_is_not():
    figures = run_flood(CLIENTS, calls_per_second=20, busy_seconds=2)
    assert 0 < figures.retries <= CLIENTS * RETRIES
    assert figures.lost_after == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")
def test_one_of_two_workers_that_is_killed_again_and_again_loses_no_call(serving: str):
    figures = run_kills(1500, "--serving", serving)
    assert figures.failures == []
    assert figures.interruptions >= 1
