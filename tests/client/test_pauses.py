"""The longest pauses of a stream, and the side that caused them. The test sets the clock."""

from collections.abc import Callable

import pytest

from tensor_reshape.client.pauses import LONG_SECONDS, Pauses


class Stream:
    """A stream on a clock of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        monkeypatch.setattr("tensor_reshape.client.pauses.time.monotonic", lambda: self._now)
        self.pauses = Pauses()

    def wait(self, seconds: float) -> None:
        self._now += seconds

    def work(self, seconds: float) -> None:
        with self.pauses.work():
            self._now += seconds


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(monkeypatch)


def pause_in_progress(stream: Stream) -> None:
    stream.work(3.0)
    stream.wait(0.1)


def block_the_event_loop(stream: Stream) -> None:
    stream.work(0.0)
    stream.wait(3.1)
    stream.pauses.record(3.0)


def wait_long_for_the_first_response(stream: Stream) -> None:
    stream.wait(60.0)
    stream.work(3.0)


def wait_for_the_network(stream: Stream) -> None:
    stream.work(3.0)
    stream.wait(30.0)


def receive_slowly(stream: Stream) -> None:
    for _ in range(3):
        stream.work(0.01)
        stream.wait(5.0)
    stream.work(0.01)


def wait_without_any_response(stream: Stream) -> None:
    stream.wait(30.0)


@pytest.mark.parametrize("pause", [pause_in_progress, block_the_event_loop, wait_long_for_the_first_response])
def test_pause_of_this_process_is_recognized_as_its_own(stream: Stream, pause: Callable[[Stream], None]):
    pause(stream)
    assert (stream.pauses.own_seconds, stream.pauses.are_own, stream.pauses.are_long) == (3.0, True, True)


@pytest.mark.parametrize("pause", [wait_for_the_network, receive_slowly, wait_without_any_response])
def test_pause_of_the_network_is_not_recognized_as_own(stream: Stream, pause: Callable[[Stream], None]):
    pause(stream)
    assert (stream.pauses.are_own, stream.pauses.are_long) == (False, False)


def test_pause_below_the_shortest_usual_stall_timeout_is_not_long(stream: Stream):
    stream.work(LONG_SECONDS / 2)
    assert (stream.pauses.are_own, stream.pauses.are_long) == (True, False)


def test_pause_is_measured_if_the_work_raises(stream: Stream):
    def fail() -> None:
        with stream.pauses.work():
            stream.wait(3.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stream.pauses.own_seconds == 3.0
