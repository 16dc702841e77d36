"""Channels as gRPC's core knows them: how a call begins on one, and the lock that an interrupted call leaves held.

With `direct_calls` and `direct_streams` this is all of the client that touches parts of grpcio that are not public.

- grpcio locks a channel in Python. An exception of a signal handler (Ctrl-C) can come just before it releases the lock,
  and then does not: every other thread would wait for it for ever, whatever its deadline.
- A signal handler may make calls, too, while the thread that it interrupts has the lock. What such a call leaves is not
  released, since the lock is still needed: so whoever gives it back has looked, before, that it was free.
- Nothing is promised where a second exception comes while the first is being dealt with.
"""

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from grpc import _channel  # the parts in question
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from tensor_reshape.client.contexts import CheckedMetadata

_CODES = {code.value[0]: code for code in grpc.StatusCode}

Batch = tuple[Sequence[Any], Any]
"""Operations that are done together, and the tag of the event that says so."""


def is_plain(channel: grpc.Channel) -> bool:
    """Whether a channel is grpcio's own: an interceptor, as instrumentation puts one around it, sees every call."""
    return type(channel) is _channel.Channel


def get_core(channel: grpc.Channel) -> Any:
    """Returns what the core is asked through; of a channel that is plain."""
    return channel._channel  # type: ignore[attr-defined] # not public


def get_code(number: int) -> grpc.StatusCode:
    """Returns a status code; one that is none of gRPC's is UNKNOWN, as it is to the core."""
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)


def begin_call(
    core: Any, path: bytes, timeout: float | None, metadata: CheckedMetadata, batches: Sequence[Batch]
) -> Any:
    """Has the core begin a call with these batches of operations.

    Raises:
        ValueError: the channel is closed.
    """
    inherited = cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS
    deadline = None if timeout is None else time.time() + timeout  # as the core counts them: from the epoch
    # No host, no credentials of the call's own, and no registered method, which was tried to no effect. The metadata
    # are among the operations; errors are worded with these.
    return core.segregated_call(
        inherited, path, None, deadline, metadata, None, batches, cygrpc.build_census_context(), None
    )


class ChannelLock:
    """grpcio's lock of a channel; to be asked from any thread, each about itself.

    Attributes:
        is_held: whether this thread has it.
    """

    def __init__(self, core: Any) -> None:
        """Finds it.

        Raises:
            LookupError: grpcio keeps it elsewhere.
        """
        # grpcio shows it to nobody, but the garbage collector: the state of the channel refers to it.
        parts = gc.get_referents(*gc.get_referents(core))
        condition = next((part for part in parts if isinstance(part, threading.Condition)), None)
        if condition is None:
            message = "this grpcio has no lock of a channel where it was"
            raise LookupError(message)
        self._condition = condition
        self.is_held: Callable[[], bool] = condition._is_owned  # type: ignore[attr-defined] # as `threading` itself asks

    def give_back(self) -> None:
        """Releases it where this thread has it, however often; outside of grpcio none has it."""
        with suppress(RuntimeError):  # it is not this thread's, or not any more
            while True:
                self._condition.release()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Gives it back where the block raises and had not begun with it."""
        was_held = self.is_held()
        try:
            yield
        except BaseException:
            if not was_held:
                self.give_back()
            raise
