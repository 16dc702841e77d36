"""Thread pools for calls that take long.

- The thread that receives calls never starts a thread. If the system has little memory, starting a thread can fail or
  block, which would delay every call. Instead, if no thread of a pool is idle, a thread of the pool starts the next
  thread before it begins its own work.
- If the system cannot start another thread, queued work waits for the existing threads.
"""

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

from tensor_reshape.server.config import ConfigError

STACK_BYTES = 1024 * 1024
"""Stack size of a thread in bytes. The system's default of 8 MiB would use most of a small address space."""

_STACK_SIZE = threading.Lock()  # this lock guards the global setting `threading.stack_size`
_Result = TypeVar("_Result")


class Pool(Executor):
    """Runs functions on a limited number of threads.

    The first thread starts at once, and further threads start on demand.
    """

    def __init__(self, most: int, name: str) -> None:
        """Starts one thread.

        Args:
            most: the maximum number of threads, at least 1.
            name: the prefix of the threads' names.

        Raises:
            ConfigError: the system cannot start the thread.
        """
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # this lock guards `_count` and `_idle`, and is not held while a thread starts
        # These are the numbers of all threads and of idle threads, including threads that are starting.
        self._count = self._idle = 1
        self._is_shut = False
        self._threads: list[threading.Thread] = []
        try:
            self._start()
        except RuntimeError as error:
            message = "the system cannot start a thread: raise the limits of memory and of processes for the server"
            raise ConfigError(message) from error
        # at exit, the threads are ended, because daemon threads must not run while the interpreter shuts down
        atexit.register(self.shutdown)

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> "Future[_Result]":
        """Queues a call of a function for a thread of the pool, and returns a future with its result.

        Raises:
            RuntimeError: the pool is shut down.
        """
        future: Future[_Result] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = fn(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001 - the future raises it
                    future.set_exception(error)
                else:
                    future.set_result(result)

        with self._lock:
            if self._is_shut:
                message = "the pool is shut down"
                raise RuntimeError(message)
            self._work.put(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Ends the threads after all submitted work, which cannot be cancelled.

        If `wait` is True, waits until they have ended.
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
            # without this statement, the thread would keep the messages of an ended call in memory until its next call
            del run
            with self._lock:
                self._idle += 1
        self._work.put(None)  # a thread that takes None from the queue ends, and passes None to the next thread

    def _grow(self) -> None:
        try:
            self._start()
        except RuntimeError:  # this error means that the system cannot start a thread now, but it may succeed later
            with self._lock:
                self._count -= 1
                self._idle -= 1
