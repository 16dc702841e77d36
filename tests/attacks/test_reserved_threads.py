"""Calls that hold all threads and say nothing: who holds no thread has one kept, also before those are given up."""

from contextlib import ExitStack

import pytest

from attack_payloads import SMALL, STATIC
from http2 import Connection
from in_process import ANY_PORT, run_runner
from strangers import retry
from tensor_reshape.server.calls import stalls
from tensor_reshape.server.calls.threaded import CALL_THREADS, CallThreads
from tensor_reshape.server.config import Config

STRANGERS, CALLS_EACH = 4, 60


@pytest.mark.timeout(60)
def test_others_are_answered_while_strangers_hold_all_threads(monkeypatch: pytest.MonkeyPatch):
    # Nobody is given up, so that a call which waits behind them waits for ever.
    monkeypatch.setattr(CallThreads, "are_short", lambda _: False)
    monkeypatch.setattr(stalls, "MIN_PRESSURE_SECONDS", 3600.0)
    config = Config(listen=(ANY_PORT,), serving="threads", max_message_bytes=1024, stall_seconds=3600, grace_seconds=0)
    with run_runner(config) as runner, ExitStack() as stack:
        address = runner.addresses[0]
        for _ in range(STRANGERS):
            stranger = stack.enter_context(Connection(address))
            for _ in range(CALLS_EACH):
                stranger.open(STATIC)
        assert STRANGERS * CALLS_EACH > CALL_THREADS
        assert retry(lambda: len(runner._admission._places.lives) == STRANGERS * CALLS_EACH)
        with Connection(address) as polite:
            assert polite.call(STATIC, SMALL).is_ok
