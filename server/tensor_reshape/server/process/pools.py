"""Pools of threads for calls that take long.

- The thread that receives calls never starts a thread. Where the system has little memory left, that may fail or block,
  and so hold up every call. A pool's threads start each other instead. A thread that takes up work first makes sure
  that another one waits for the next.
- If the system has no room for another thread, the work waits for those that there are.
"""

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

from tensor_reshape.server.config import ConfigError

STACK_BYTES = 1024 * 1024
"""Of each thread: the system's default of 8 MiB would take the most of a small address space."""

_STACK_SIZE = threading.Lock()  # held while `threading.stack_size` is changed, which is that of the whole process
_Result = TypeVar("_Result")


class Pool(Executor):
    """Runs work in as many threads as are needed at once, up to a number; the first is started at once."""

    def __init__(self, most: int, name: str) -> None:
        """Starts one thread.

        Args:
            most: how many threads there may be, at least 1.
            name: what the threads' names begin with.

        Raises:
            ConfigError: the system has no room for it.
        """
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # guards the numbers; no thread is started with it
        self._count = self._idle = 1  # of the threads, those that are being started among them
        self._is_shut = False
        self._threads: list[threading.Thread] = []
        try:
            self._start()
        except RuntimeError as error:
            message = "the system has no room for the threads of a server: raise its limits"
            raise ConfigError(message) from error
        atexit.register(self.shutdown)  # the threads are daemons, which must not run while the interpreter ends

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> "Future[_Result]":
        """Has a thread call a function, and returns its future result.

        Raises:
            RuntimeError: the pool is shut down.
        """
        future: Future[_Result] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = fn(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001 - it is for whoever looks at the result
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
        """Ends the threads when they have done what was submitted, which is not cancelled; perhaps waits for that."""
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
            del run  # or the last work, with its messages, would be kept until the next comes
            with self._lock:
                self._idle += 1
        self._work.put(None)  # for the next thread

    def _grow(self) -> None:
        try:
            self._start()
        except RuntimeError:  # the system has no room for it now; perhaps it has when the next work comes
            with self._lock:
                self._count -= 1
                self._idle -= 1
