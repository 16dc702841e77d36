"""Threads that exist before anybody needs them."""

import threading

from tensor_reshape.server.process.pools import start_threads


def list_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("early")]


def test_pool_starts_all_threads_at_once():
    with start_threads(5, "early") as pool:
        assert len(list_threads()) == 5
        assert pool.submit(lambda: 42).result(60) == 42
        assert len(list_threads()) == 5
