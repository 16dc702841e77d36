"""Signals on a descriptor."""

import os
import signal
from collections.abc import Iterator

import pytest

from tensor_reshape.server.process.signals import catch_signals, ignore_signals

NUMBER = signal.SIGUSR1


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = signal.getsignal(NUMBER)
    yield
    signal.signal(NUMBER, before)


def test_caught_signal_is_read_as_a_byte_from_a_descriptor():
    with catch_signals((NUMBER,)) as signals:
        for _ in range(2):
            signal.raise_signal(NUMBER)
        assert os.read(signals, 8) == bytes([NUMBER] * 2)


def test_signal_ignored_during_catch_signals_stays_ignored_afterwards():
    with catch_signals((NUMBER,)):
        ignore_signals((NUMBER,))
    signal.raise_signal(NUMBER)


def test_thread_that_reads_after_the_context_reads_the_end_of_the_pipe():
    with catch_signals((NUMBER,)) as signals:
        pass
    assert os.read(signals, 1) == b""
    os.close(signals)
