"""How a worker knows that it serves: the thread that every call begins on takes calls up.

Any call proves it. Only when none has come for a while does the worker make one of its own, of a method that nobody
serves, over an address of its own: it is refused by that very thread, and shares nothing else with other callers. So
nothing that they hold can silence a worker that answers.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import grpc

METHOD = "/heartbeat"
"""Of nobody: it is refused by the thread that receives calls, and reaches no other."""

BEAT_SECONDS = 2.0
"""How often a worker sends a heartbeat. While it is not called, each costs 2 ms of processor time: the call that proves
it, and gRPC's threads, which look for more work a dozen times after each call.
"""

_RETRY_SECONDS = 0.1  # not at once: a server that refuses connections would be asked without a pause
_CALL_SECONDS = 1.0  # within which a call that is not taken up is given up, so that the next one tries anew
_CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # the environment may name one, which knows nothing of this address
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
]


class Heartbeat:
    """The heartbeat of the server of this process, on the thread that calls `beat`. It ends with a `with` block."""

    def __init__(self, count: Callable[[], int], address: str, send: Callable[[], None]) -> None:
        """Prepares a call, but makes none.

        Args:
            count: returns how many calls the server of this process has taken up.
            address: where that server, and no other, takes calls in plain text.
            send: sends a heartbeat.
        """
        self._count = count
        self._send = send
        self._seen = count()
        # Not the function that an instrumentation may have replaced it by: a heartbeat belongs in no trace.
        self._channel = inspect.unwrap(grpc.insecure_channel)(address, options=_CHANNEL_OPTIONS)
        self._call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(METHOD)

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connection."""
        self._channel.close()

    def beat(self) -> float:
        """Sends a heartbeat if calls are taken up; returns the seconds until it is to be called again."""
        if self._count() == self._seen:
            with suppress(grpc.RpcError):  # the call is always refused
                self._call(b"", timeout=_CALL_SECONDS, wait_for_ready=True)
        if self._count() == self._seen:
            return _RETRY_SECONDS
        self._seen = self._count()
        self._send()
        return BEAT_SECONDS
