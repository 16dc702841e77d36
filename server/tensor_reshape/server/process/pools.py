"""Thread pools for calls that take long.

- The thread that receives calls never starts a thread. If memory is short, a start can fail or block, which would delay
  every call. A thread of a pool therefore starts the next thread, before it begins its work and if no thread is idle.
- If the system cannot start another thread, the work waits for the existing threads.
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

_STACK_SIZE = threading.Lock()  # protects `threading.stack_size`, which is a global setting
_Result = TypeVar("_Result")


class Pool(Executor):
    """Runs functions on a limited number of threads. The first thread starts at once, further threads when needed."""

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
        self._lock = threading.Lock()  # protects the numbers below, and is free while a thread starts
        self._count = self._idle = 1  # the numbers of threads, including threads that are starting
        self._is_shut = False
        self._threads: list[threading.Thread] = []
        try:
            self._start()
        except RuntimeError as error:
            message = "the system cannot start a thread: raise the limits of memory and of processes for the server"
            raise ConfigError(message) from error
        atexit.register(self.shutdown)  # daemon threads must not run while the interpreter exits

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> "Future[_Result]":
        """Returns the future result of a function that a thread of the pool calls.

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
        """Ends the threads after all submitted work, which cannot be cancelled. If `wait` is set, waits for the end."""
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
            del run  # otherwise, the messages of this work would stay in memory until the next work
            with self._lock:
                self._idle += 1
        self._work.put(None)  # ends the next thread

    def _grow(self) -> None:
        try:
            self._start()
        except RuntimeError:  # the system cannot start a thread now, but perhaps for the next work
            with self._lock:
                self._count -= 1
                self._idle -= 1
