"""Servers that go away and come back under load: no call of the SDK is lost, and none waits longer than it must."""

import sys

import pytest

from interruptions import Figures, run_kills, run_restarts

RUNS = 3
"""A busy machine may wake a caller late once or twice; a caller that waits longer than it must does so each time."""


def run_until_punctual(*flags: str) -> Figures:
    """Restarts a server for some seconds; again, where no call has failed but one has taken too long."""
    for _ in range(RUNS):
        figures = run_restarts(6, *flags)
        if figures.failures or not figures.find_problems():
            break
    return figures


def test_a_lone_server_that_restarts_again_and_again_loses_no_call(serving: str):
    figures = run_until_punctual("--serving", serving, "--drain-seconds", "0.2")
    assert figures.find_problems() == [], figures
    assert set(figures.calls) == {"unary", "stream", "asyncio", "asyncio stream"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")
def test_one_of_two_workers_that_is_killed_again_and_again_loses_no_call(serving: str):
    figures = run_kills(1500, "--serving", serving)
    assert figures.failures == []
    assert figures.interruptions >= 1
