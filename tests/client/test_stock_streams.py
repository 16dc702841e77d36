"""What streams by grpcio's own means have besides what `test_direct_streams` asks of both ways."""

import threading

import numpy as np

from server_processes import ServerProcess
from tensor_reshape.client import Client

ARRAY = np.arange(300, dtype=np.uint8)


def test_the_thread_that_sends_ends_with_its_stream(server: ServerProcess):
    during: set[threading.Thread] = set()
    before = set(threading.enumerate())
    with Client(server.address, calls="stock", chunk_bytes=10) as client:
        client.reshape(
            ARRAY,
            [-1],
            special_zero=False,
            transfer="stream",
            progress=lambda *_: during.update(threading.enumerate()),
        )
        started = during - before
        for thread in started:
            thread.join(60)
    assert started
    assert not any(thread.is_alive() for thread in started)
