"""Threads of their own for what must not wait for the workers, or keep them waiting."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial


def assign_threads(servicer: object, method: str, threads: ThreadPoolExecutor, *, holds_thread: bool = True) -> None:
    """Has grpcio call one method of one servicer on `threads`: it reads attributes of the callable.

    Args:
        servicer: before it is added to a server.
        method: the name of the method.
        threads: where it is called.
        holds_thread: False for a streaming method that takes a callback to send with, and returns.
    """
    behavior = partial(getattr(servicer, method))
    behavior.experimental_thread_pool = threads  # type: ignore[attr-defined]
    behavior.experimental_non_blocking = not holds_thread  # type: ignore[attr-defined]
    setattr(servicer, method, behavior)
