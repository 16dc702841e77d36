"""Servers restart under load: the SDK loses no call, and no call waits longer than necessary."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from interruptions import Figures, run_restarts
from replicas import run_flood, run_replicas, serve_tls
from tensor_reshape.client.retries import PATIENCE_SECONDS

KINDS = {"unary", "stream", "asyncio", "asyncio stream"}
REST_SECONDS = 0.02  # pause between two calls of a caller, so that other tests get processor time, too
CLIENTS, RETRIES = 4, 50  # retries of each client: half of the tokens of its budget
RUNS = 3
"""A busy machine may wake a caller late once or twice. A real error would delay it each time."""


def run_until_punctual(run: Callable[[], Figures]) -> Figures:
    """Runs again if no call has failed, but a call was too slow, or no server ran while calls waited."""
    for _ in range(RUNS):
        figures = run()
        if figures.away_seconds < PATIENCE_SECONDS and (figures.failures or not figures.find_problems()):
            break
    return figures


def test_repeated_server_restarts_lose_no_call():
    flags = ("--drain-seconds", "0.2")
    figures = run_until_punctual(lambda: run_restarts(2, *flags, every_seconds=1, rest_seconds=REST_SECONDS))
    assert figures.find_problems() == [], figures
    assert set(figures.calls) == KINDS


@pytest.mark.parametrize("has_tls", [True, pytest.param(False, marks=pytest.mark.measured)])
def test_restarting_or_killing_server_replicas_loses_no_call(has_tls: bool):
    endings, flags = (signal.SIGTERM, signal.SIGKILL), ("--drain-seconds", "0.5")
    plain: tuple[tuple[str, ...], dict[str, Any]] = ((), {})
    with ExitStack() as stack:
        tls, settings = stack.enter_context(serve_tls()) if has_tls else plain
        figures = run_until_punctual(
            lambda: run_replicas(endings, 0, *flags, *tls, every_seconds=0.5, rest_seconds=REST_SECONDS, **settings)
        )
    assert figures.find_problems() == [], figures
    assert (set(figures.calls), figures.interruptions) == (KINDS, len(endings))


@pytest.mark.measured
def test_overloaded_server_gets_few_retries_and_recovers():
    figures = run_flood(CLIENTS, calls_per_second=20, busy_seconds=2)
    assert 0 < figures.retries <= CLIENTS * RETRIES
    assert figures.lost_after == []
