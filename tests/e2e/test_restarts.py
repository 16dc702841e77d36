"""Servers that go away and come back under load: no call of the SDK is lost, and none waits longer than it must."""

import sys

import pytest

from interruptions import run_kills, run_restarts


def test_a_lone_server_that_restarts_again_and_again_loses_no_call(serving: str):
    figures = run_restarts(8, "--serving", serving, "--drain-seconds", "0.2")
    assert figures.find_problems() == []
    assert set(figures.calls) == {"unary", "stream", "asyncio", "asyncio stream"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")
def test_one_of_two_workers_that_is_killed_again_and_again_loses_no_call(serving: str):
    figures = run_kills(1500, "--serving", serving)
    assert figures.failures == []
    assert figures.interruptions >= 1
