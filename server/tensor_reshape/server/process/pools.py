"""Pools of threads whose threads exist before anybody needs one.

`ThreadPoolExecutor` starts a thread when work comes in, on the thread that brings it. Where the system has no room for
one then, that is an exception on the thread that serves every call, which grpcio does not survive.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tensor_reshape.server.config import ConfigError

Pool = TypeVar("Pool", bound=ThreadPoolExecutor)

STACK_BYTES = 1024 * 1024
"""Of each thread: the system's default of 8 MiB would take the most of a small address space."""


def start_threads(count: int, name: str) -> ThreadPoolExecutor:
    """Returns a pool whose threads have all been started; call it before the server serves.

    Args:
        count: how many, at least 1.
        name: what the threads' names begin with.

    Raises:
        ConfigError: the system has no room for so many.
    """
    return start_all(ThreadPoolExecutor(max_workers=count, thread_name_prefix=name), count)


def start_all(pool: Pool, count: int) -> Pool:
    """Starts all threads of a new pool of `count`, and returns it.

    Raises:
        ConfigError: the system has no room for so many.
    """
    met = threading.Barrier(count + 1)  # a thread that waits here takes no second task: each gets a thread of its own
    default = threading.stack_size(STACK_BYTES)  # of all threads that are started from now on, so only meanwhile
    try:
        for _ in range(count):
            pool.submit(met.wait)
    except RuntimeError as error:
        met.abort()
        pool.shutdown(cancel_futures=True)
        message = f"the system has no room for {count} threads: lower --threads, or raise its limits"
        raise ConfigError(message) from error
    finally:
        threading.stack_size(default)
    met.wait()
    return pool
