"""How a worker knows that it serves: the thread that every call begins on takes calls up.

Any call proves it. Only when none has come for a while does the worker make one of its own, of a method that nobody
serves, over an address of its own: it is refused by that very thread, and shares nothing else with other callers. So
nothing that they hold can silence a worker that answers.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import grpc

METHOD = "/heartbeat"
"""Of nobody: it is refused by the thread that receives calls, and reaches no other."""

_BEAT_SECONDS = 0.5  # more often than what a supervisor takes for silence
_RETRY_SECONDS = 0.1  # not at once: a server that refuses connections would be asked without a pause
_CALL_SECONDS = 1.0  # within which a call that is not taken up is given up, so that the next one tries anew
_CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # the environment may name one, which knows nothing of this address
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
]


@contextmanager
def run_heartbeat(count: Callable[[], int], address: str, tell: Callable[[], None]) -> Iterator[None]:
    """Calls `tell` twice a second during the block, as long as calls are taken up.

    Args:
        count: returns how many calls the server of this process has taken up.
        address: where that server, and no other, takes calls in plain text.
        tell: called in a thread of its own.
    """
    ended = threading.Event()
    # Not what an instrumentation has made of the function: a heartbeat is nobody's call, and belongs in no trace.
    channel = inspect.unwrap(grpc.insecure_channel)(address, options=_CHANNEL_OPTIONS)
    arguments = (count, channel.unary_unary(METHOD), tell, ended)
    thread = threading.Thread(target=_keep_beating, args=arguments, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        channel.close()
        thread.join()


def _keep_beating(
    count: Callable[[], int],
    call: "grpc.UnaryUnaryMultiCallable[bytes, bytes]",
    tell: Callable[[], None],
    ended: threading.Event,
) -> None:
    seen = count()
    while not ended.is_set():
        if count() == seen:
            with suppress(grpc.RpcError, ValueError):  # it is always refused; or the channel is closed
                call(b"", timeout=_CALL_SECONDS, wait_for_ready=True)
        if count() == seen:
            ended.wait(_RETRY_SECONDS)
            continue
        seen = count()
        tell()
        ended.wait(_BEAT_SECONDS)
