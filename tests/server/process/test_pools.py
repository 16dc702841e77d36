"""Thread pools, and locks that threads take in turn."""

import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

import pytest

from tensor_reshape.server.process import pools
from tensor_reshape.server.process.pools import SWITCH_SECONDS, FairLock, Pool
from waits import WAIT_SECONDS, await_waiting


def count_threads(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def meet(pool: Pool, count: int) -> None:
    """Runs this number of threads at the same time."""
    met = threading.Barrier(count)
    for future in [pool.submit(met.wait, WAIT_SECONDS) for _ in range(count)]:
        future.result(WAIT_SECONDS)


def test_thread_pool_future_has_the_result_or_exception():
    with Pool(1, "results") as pool:
        assert pool.submit(divmod, 7, 2).result(WAIT_SECONDS) == (3, 1)
        assert isinstance(pool.submit(divmod, 7, 0).exception(WAIT_SECONDS), ZeroDivisionError)


def test_thread_pool_starts_threads_on_demand():
    with Pool(5, "lazy") as pool:
        assert count_threads("lazy") == 1
        meet(pool, 2)
        assert count_threads("lazy") <= 3


def test_thread_pool_uses_at_most_its_maximum_threads():
    with Pool(5, "all") as pool:
        for _ in range(3):
            meet(pool, 5)
        assert count_threads("all") == 5


def test_thread_pool_shutdown_finishes_submitted_work():
    pool = Pool(2, "ended")
    futures = [pool.submit(pow, number, 2) for number in range(100)]
    pool.shutdown()
    assert all(future.done() for future in futures)
    assert count_threads("ended") == 0
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(pow, 1, 2)


def test_thread_pool_does_not_run_cancelled_work():
    with Pool(1, "cancelled") as pool:
        met, done = threading.Barrier(2), list[int]()
        pool.submit(lambda: [met.wait(WAIT_SECONDS) for _ in range(2)])
        met.wait(WAIT_SECONDS)  # the first work has begun, so the next one waits
        assert pool.submit(done.append, 1).cancel()
        met.wait(WAIT_SECONDS)
        pool.submit(done.append, 2).result(WAIT_SECONDS)
        assert done == [2]


def test_thread_pool_keeps_no_reference_to_finished_work():
    class Message:
        pass

    message, gone = Message(), threading.Event()
    weakref.finalize(message, gone.set)
    with Pool(1, "kept") as pool:
        pool.submit(id, message)
        del message
        assert gone.wait(WAIT_SECONDS)


CROWDED = """
import resource, threading
from pathlib import Path
from tensor_reshape.server.process.pools import STACK_BYTES, Pool

pool = Pool(50, "crowded")
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 8 * STACK_BYTES, resource.RLIM_INFINITY))
began = threading.Semaphore(0)
goes_on = threading.Event()
futures = [pool.submit(lambda: (began.release(), goes_on.wait())) for _ in range(50)]
began.acquire()
began.acquire()
goes_on.set()
assert all(future.result(60) for future in futures)
print(threading.active_count())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_thread_pool_works_if_no_more_threads_can_start():
    outcome = subprocess.run([sys.executable, "-c", CROWDED], capture_output=True, text=True, check=True)
    assert 2 < int(outcome.stdout) < 50


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> FairLock:
    monkeypatch.setattr(pools, "SLICE_SECONDS", 0.0)  # each slice ends at once
    return FairLock()


def start(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def start_to_take(lock: FairLock) -> tuple[threading.Thread, threading.Event]:
    """Starts a thread that takes a lock, and sets the event when it has the lock."""
    done = threading.Event()

    def take() -> None:
        with lock:
            done.set()

    return start(take), done


def work_in_turns(turns: FairLock, **slices: int) -> str:
    """Starts threads one after another, each with this number of slices; returns the order of the slices' threads."""
    steps: SimpleQueue[str] = SimpleQueue()

    def work(name: str) -> None:
        with turns:
            for _ in range(slices[name]):
                steps.put(name)
                turns.give_way()

    with turns:
        threads = []
        for count, name in enumerate(slices, 1):
            threads.append(start(partial(work, name)))
            await_waiting(turns, count)
    for thread in threads:
        thread.join(WAIT_SECONDS)
    return "".join(steps.get(timeout=WAIT_SECONDS) for _ in range(sum(slices.values())))


@pytest.mark.parametrize(
    ("slices", "order"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "abcd"),
        ({"a": 4, "b": 4}, "abababab"),
        ({"a": 6, "b": 6, "c": 2}, "abcabcabababab"),
    ],
)
def test_fair_lock_is_granted_to_threads_in_arrival_order(turns: FairLock, slices: dict[str, int], order: str):
    assert work_in_turns(turns, **slices) == order


def test_fair_lock_is_kept_until_the_time_slice_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pools, "SLICE_SECONDS", 1e9)
    turns = FairLock()
    with turns:
        thread, done = start_to_take(turns)
        await_waiting(turns, 1)
        turns.give_way()
        assert not done.is_set()
    thread.join(WAIT_SECONDS)
    assert done.is_set()


def test_thread_switch_interval_is_restored_after_the_last_fair_lock():
    before = sys.getswitchinterval()
    first, second = FairLock(), FairLock()
    first.__enter__()
    with second:
        first.__exit__()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS, rel=0.01)
    assert sys.getswitchinterval() == before


def test_fair_locks_do_not_block_each_other(turns: FairLock):
    with turns:
        _, done = start_to_take(FairLock())
        assert done.wait(WAIT_SECONDS)


def test_fair_lock_is_released_after_an_exception():
    turns = FairLock()
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"), turns:
            int("a bug")
