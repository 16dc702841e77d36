"""Provides thread pools for calls that take long, and a fair lock with which the threads take turns.

- The thread that receives calls never starts a thread. If the system has little memory, starting a thread can fail or
  block, which would delay every call. Instead, if no thread of a pool is idle, a thread of the pool starts the next
  thread before it begins its own work.
- If the system cannot start another thread, queued work waits for the existing threads.
- CPython executes only one thread at a time. Several computing threads are therefore not faster than one, and each of
  them can delay the thread that serves calls. Computing threads therefore take turns with a `FairLock`. They get the
  lock in the order of arrival, and each thread may keep it for a time slice. While a thread computes, the interpreter's
  switch interval is short, so that the serving thread runs soon after it wakes up.
"""

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from tensor_reshape.server.config import ConfigError

STACK_BYTES = 1024 * 1024
"""Stack size of a thread in bytes. The system's default of 8 MiB would use most of a small address space."""

_STACK_SIZE = threading.Lock()  # this lock guards the global setting `threading.stack_size`
_Result = TypeVar("_Result")


def _execute(future: "Future[_Result]", call: Callable[[], _Result]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)
        else:
            future.set_result(result)
    # The traceback of an error refers to this frame. If the frame still referred to the future, and so to the error,
    # this cycle would keep the error in memory.
    del future


class Pool(Executor):
    """Runs functions on a limited number of threads.

    The first thread starts at once, and further threads start on demand.
    """

    def __init__(self, most: int, name: str) -> None:
        """Starts one thread.

        Args:
            most: the maximum number of threads, which must be at least 1.
            name: the prefix of the threads' names.

        Raises:
            ConfigError: the system cannot start the thread.
        """
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # this lock guards `_count` and `_idle`, and is not held while a thread starts
        # `_count` is the number of threads, and `_idle` is the number of idle threads. Both numbers include threads
        # that are still starting.
        self._count = self._idle = 1
        self._is_shut = False
        self._threads: list[threading.Thread] = []
        try:
            self._start()
        except RuntimeError as error:
            message = "the system cannot start a thread: raise the limits of memory and of processes for the server"
            raise ConfigError(message) from error
        # The threads end at exit, because daemon threads must not run while the interpreter shuts down.
        atexit.register(self.shutdown)

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> "Future[_Result]":
        """Queues a call of a function for a thread of the pool, and returns a future with its result.

        Raises:
            RuntimeError: the pool was already shut down.
        """
        future: Future[_Result] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("the pool is shut down")
            self._work.put(partial(_execute, future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Ends the threads after they have done all submitted work. Submitted work cannot be cancelled.

        If `wait` is True, this method waits until the threads have ended.
        """
        del cancel_futures
        with self._lock:
            self._is_shut = True
            self._work.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        with _STACK_SIZE:
            default = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(default)
        self._threads.append(thread)

    def _run(self) -> None:
        while (run := self._work.get()) is not None:
            with self._lock:
                self._idle -= 1
                grows = not self._idle and self._count < self._most
                if grows:
                    self._count += 1
                    self._idle += 1
            if grows:
                self._grow()
            run()
            # Otherwise an idle thread would keep the messages of an ended call in memory until the next call of the
            # thread.
            del run
            with self._lock:
                self._idle += 1
        # A thread that takes None from the queue ends. It puts None into the queue again, so that the next thread also
        # ends.
        self._work.put(None)

    def _grow(self) -> None:
        try:
            self._start()
        except RuntimeError:  # the system cannot start a thread now, but a later attempt may succeed
            with self._lock:
                self._count -= 1
                self._idle -= 1


SLICE_SECONDS = 0.002
"""The time slice of a computing thread while others wait for the lock.

Passing the lock to the next thread costs about 50 us.
"""

SWITCH_SECONDS = 0.0001
"""The interpreter's switch interval while threads compute.

The serving thread waits for a computing thread at most this long after waking up. The serving thread wakes up several
times in each call. If no thread wakes up, the interpreter does not switch threads, and a short switch interval costs
nothing.

CPython's default is 5 ms. During a batch, four such waits took 7.7 ms with this default, 1.5 ms with an interval of 0.5
ms, 1.0 ms with an interval of 0.1 ms and 0.8 ms with an interval of 0.05 ms. The processor time of the batch was the
same in all cases.
"""


class _FastSwitches:
    """Shortens the interpreter's switch interval as long as at least one user needs this."""

    def __init__(self) -> None:
        """Does not change the switch interval yet, because there is no user."""
        self._lock = threading.Lock()  # this lock guards `_users` and `_interval`
        self._users = 0
        # The original switch interval of the interpreter. It is restored when the last user ends.
        self._interval = 0.0

    def begin(self) -> None:
        """Adds a user of the short switch interval. The user must call `end` later."""
        with self._lock:
            if not self._users:
                self._interval = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_SECONDS, self._interval))
            self._users += 1

    def end(self) -> None:
        """Removes a user. The last user restores the original switch interval."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._interval)


FAST_SWITCHES = _FastSwitches()
"""The users of a short switch interval in this process.

Other code that would delay the serving thread also uses this object.
"""


class FairLock:
    """A lock that threads get in the order of arrival. The lock is a context manager and is not reentrant."""

    def __init__(self) -> None:
        """Creates an unlocked lock."""
        self._lock = threading.Lock()  # this lock guards `_waiting` and `_taken`
        # Each thread that waits for the fair lock blocks on its own ordinary lock. When it is the turn of the thread,
        # its ordinary lock is released. This deque contains the ordinary locks in the order in which the threads
        # arrived.
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False  # this flag stays True while the fair lock passes from one thread to the next
        # The end of the current time slice, in seconds of `time.monotonic`. Only the thread that holds the fair lock
        # uses this value.
        self._until = 0.0

    def __enter__(self) -> None:
        """Waits until it is this thread's turn, and takes the lock."""
        with self._lock:
            if self._taken:
                gate = self._queue()
            else:
                self._taken, gate = True, None
                FAST_SWITCHES.begin()
        if gate is not None:
            gate.acquire()
        self._until = time.monotonic() + SLICE_SECONDS

    def __exit__(self, *_: object) -> None:
        """Passes the lock to the next waiting thread, or releases it if no thread waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
                FAST_SWITCHES.end()

    def give_way(self) -> None:
        """If the time slice is over and threads wait, passes the lock to the next thread and waits to get it again."""
        if self._waiting and time.monotonic() >= self._until:
            # This thread queues before the next thread starts, because the next thread may pass on the lock at once.
            with self._lock:
                gate = self._queue()
                self._waiting.popleft().release()
            gate.acquire()
            self._until = time.monotonic() + SLICE_SECONDS

    def _queue(self) -> threading.Lock:
        """Adds this thread to the queue, and returns the lock that is released when it is this thread's turn."""
        gate = threading.Lock()
        gate.acquire()
        self._waiting.append(gate)
        return gate
