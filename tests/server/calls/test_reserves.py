"""Which calls get a thread of the reserve: the first of each connection that holds none."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from tensor_reshape.server.calls.reserves import ReservedThreads

SECONDS = 60.0
RESERVED = 2


def run_in_context(function: Callable[[], str], event: object) -> str:
    """Stands for what grpcio submits: a function, and behind it the event of the call."""
    del event
    return function()


class Calls:
    """Calls that hold a thread until they are let go."""

    def __init__(self, threads: ThreadPoolExecutor, reserve: ThreadPoolExecutor) -> None:
        self._threads = ReservedThreads(threads, reserve, RESERVED)
        self.released = threading.Event()
        self._over: SimpleQueue[Future[str]] = SimpleQueue()

    def begin(self, peer: str) -> "Future[str]":
        """Begins one, which returns the name of its thread."""
        function, event = self._hold, SimpleNamespace(call=SimpleNamespace(peer=peer.encode))
        call: Future[str] = self._threads.submit(run_in_context, function, event)
        call.add_done_callback(self._over.put)  # after what the reserve does then: that comes first
        return call

    def _hold(self) -> str:
        assert self.released.wait(SECONDS)
        return threading.current_thread().name

    def end(self, *calls: "Future[str]") -> list[str]:
        """Ends all that have begun; returns which threads these had."""
        self.released.set()
        for _ in calls:
            self._over.get(timeout=SECONDS)
        names = [call.result(SECONDS).partition("_")[0] for call in calls]
        self.released.clear()
        return names


@pytest.fixture
def calls() -> Iterator[Calls]:
    with ThreadPoolExecutor(1, "shared") as threads, ThreadPoolExecutor(RESERVED, "reserve") as reserve:
        calls = Calls(threads, reserve)
        yield calls
        calls.released.set()


def run(calls: Calls, *peers: str) -> list[str]:
    return calls.end(*[calls.begin(peer) for peer in peers])


def test_the_first_call_of_a_connection_has_a_thread_of_the_reserve_and_others_have_not(calls: Calls):
    assert run(calls, "a", "a", "b") == ["reserve", "shared", "reserve"]


def test_who_comes_when_the_reserve_is_empty_has_a_thread_of_all(calls: Calls):
    assert run(calls, "a", "b", "c") == ["reserve", "reserve", "shared"]


def test_what_is_over_makes_room_in_the_reserve(calls: Calls):
    assert [run(calls, peer) for peer in ("a", "a", "b", "c")] == [["reserve"]] * 4


def test_a_call_that_waits_for_a_thread_counts(calls: Calls):
    assert run(calls, "a", "a", "a") == ["reserve", "shared", "shared"]  # the third has waited for the second


def test_nothing_is_kept_of_connections_without_a_call(calls: Calls):
    run(calls, "a", "b", "c")
    assert not calls._threads._calls


def test_what_cannot_be_submitted_is_not_counted(calls: Calls):
    calls._threads._reserve.shutdown()
    with pytest.raises(RuntimeError):
        calls.begin("a")
    assert not calls._threads._calls
    assert calls._threads._free == RESERVED
