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


class Heartbeat(grpc.GenericRpcHandler):
    """Counts the calls that are taken up; it has to be the first handler of its server, and told of others.

    Attributes:
        count: how many there have been. One thread counts, so nothing is lost.
    """

    def __init__(self) -> None:
        """Starts with none."""
        self.count = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        """Counts a call, and leaves it to the other handlers."""
        del handler_call_details
        self.note()

    def note(self) -> None:
        """Counts a call that is taken up without a handler."""
        self.count += 1


@contextmanager
def run_heartbeat(heartbeat: Heartbeat, address: str, tell: Callable[[], None]) -> Iterator[None]:
    """Calls `tell` twice a second during the block, as long as calls are taken up.

    Args:
        heartbeat: of this process's server.
        address: where that server, and no other, takes calls in plain text.
        tell: called in a thread of its own.
    """
    ended = threading.Event()
    # Not what an instrumentation has made of the function: a heartbeat is nobody's call, and belongs in no trace.
    channel = inspect.unwrap(grpc.insecure_channel)(address, options=_CHANNEL_OPTIONS)
    arguments = (heartbeat, channel.unary_unary(METHOD), tell, ended)
    thread = threading.Thread(target=_keep_beating, args=arguments, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        channel.close()
        thread.join()


def _keep_beating(
    heartbeat: Heartbeat,
    call: "grpc.UnaryUnaryMultiCallable[bytes, bytes]",
    tell: Callable[[], None],
    ended: threading.Event,
) -> None:
    seen = heartbeat.count
    while not ended.is_set():
        if heartbeat.count == seen:
            with suppress(grpc.RpcError, ValueError):  # it is always refused; or the channel is closed
                call(b"", timeout=_CALL_SECONDS, wait_for_ready=True)
        if heartbeat.count == seen:
            ended.wait(_RETRY_SECONDS)
            continue
        seen = heartbeat.count
        tell()
        ended.wait(_BEAT_SECONDS)
