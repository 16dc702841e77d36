"""Unary calls as gRPC's core makes them: one batch of operations, and one event when all of them are done.

grpcio's own blocking calls do the same on the same channel. Around it they keep a state, with a lock and a set of what
is due, that only callbacks and futures need: more than a quarter of a client's processor time for a small call. None of
it is made here.

This needs parts of grpcio that are not public. `is_supported` says whether the installed grpcio is one of those that
this was written for; where it is not, calls are `StockCalls`.

- The thread that calls waits in the core, which looks for signals five times a second: an exception of a handler, as
  Ctrl-C raises it, leaves `send`, and the lock of the channel is given back. The call is cancelled with it, but for one
  that was interrupted as it began: nothing refers to that one yet, so it runs on at the server until its deadline.
- The core ends what is under way when its channel is closed, and refuses what begins after that.
- A call has operations, a completion queue and a status of its own: threads share nothing here but the channel.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Literal

import grpc
from grpc._cython import cygrpc  # type: ignore[attr-defined] # the parts in question: compiled, without types

from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.core_channels import ChannelLock, begin_call, get_code, get_core, is_plain
from tensor_reshape.client.statuses import build_error
from tensor_reshape.client.stock_calls import StockCalls, check_answer

Way = Literal["auto", "stock"]

_WAYS = ("auto", "stock")
_PARTS = {
    "Channel": ("close", "segregated_call"),
    "SegregatedCall": ("next_event",),
    "SendInitialMetadataOperation": (),
    "SendMessageOperation": (),
    "SendCloseFromClientOperation": (),
    "ReceiveInitialMetadataOperation": (),
    "ReceiveMessageOperation": ("message",),
    "ReceiveStatusOnClientOperation": ("code", "details", "trailing_metadata"),
    "PropagationConstants": ("GRPC_PROPAGATE_DEFAULTS",),
    "InitialMetadataFlags": ("wait_for_ready", "wait_for_ready_explicitly_set"),
    "StatusCode": ("cancelled",),
    "build_census_context": (),
}


def check_way(way: Way) -> Way:
    """Returns `way` where it is one.

    Raises:
        ValueError: it is not.
    """
    if way not in _WAYS:
        message = f"calls is {way!r}; it is one of {', '.join(_WAYS)}"
        raise ValueError(message)
    return way


def open_calls(channel: grpc.Channel, way: Way) -> "DirectCalls | StockCalls":
    """Returns what makes the unary calls of a channel.

    Args:
        channel: whoever made it closes it.
        way: "auto": directly, where that is possible; "stock": as grpcio does it.
    """
    return DirectCalls(channel) if can_be_direct(channel, way) else StockCalls(channel)


def can_be_direct(channel: grpc.Channel, way: Way) -> bool:
    """Whether the calls of a channel are to go past grpcio's objects, and can."""
    return way == "auto" and is_plain(channel) and is_supported()


@cache
def is_supported() -> bool:
    """Whether the installed grpcio has all that this module needs, in the form that it needs."""
    parts = {name: getattr(cygrpc, name, None) for name in _PARTS}
    has_parts = all(hasattr(parts[name], attribute) for name, attributes in _PARTS.items() for attribute in attributes)
    return has_parts and None not in parts.values() and _refuses_as_known()


class DirectCalls:
    """The unary calls of one channel; safe to share between threads."""

    def __init__(self, channel: grpc.Channel) -> None:
        """Keeps the channel, which is closed by whoever made it."""
        self._core = get_core(channel)
        self._lock = ChannelLock(self._core)

    def send(
        self,
        path: str,
        request: bytes,
        timeout: float | None,
        metadata: CheckedMetadata,
        *,
        wait_for_ready: bool = False,
    ) -> bytes:
        """Makes a call and returns its answer; as `StockCalls.send`, with the same errors."""
        flags = cygrpc.InitialMetadataFlags
        message, status = cygrpc.ReceiveMessageOperation(0), cygrpc.ReceiveStatusOnClientOperation(0)
        operations = (
            cygrpc.SendInitialMetadataOperation(
                metadata or None, flags.wait_for_ready | flags.wait_for_ready_explicitly_set if wait_for_ready else 0
            ),
            cygrpc.SendMessageOperation(request, 0),
            cygrpc.SendCloseFromClientOperation(0),
            cygrpc.ReceiveInitialMetadataOperation(0),
            message,
            status,
        )
        was_held = self._lock.is_held()
        try:  # no `guard`: it would cost each call a microsecond
            begin_call(self._core, path.encode(), timeout, metadata, ((operations, None),)).next_event()
        except BaseException:
            if not was_held:
                self._lock.give_back()
            raise
        if code := status.code():
            raise build_error(get_code(code), status.details(), status.trailing_metadata())
        return check_answer(message.message())

    def guard(self) -> AbstractContextManager[None]:
        """Returns a context for calls that grpcio itself makes: where one is interrupted, it gives the lock back.

        It mends the lock alone. A call that grpcio has begun by half is another matter: see `StockCalls.start`.
        """
        return self._lock.guard()


def _refuses_as_known() -> bool:
    """Whether the core takes a call in this form. It is a closed channel that is asked, so nothing is ever sent."""
    try:
        core = cygrpc.Channel(b"unix:nobody", (), None)
        ChannelLock(core)
        core.close(cygrpc.StatusCode.cancelled, "never open")
        begin_call(core, b"/", None, (), (((), None),))
    except ValueError:  # it is closed; a TypeError would say that the arguments are others now
        return True
    except Exception:  # noqa: BLE001 - whatever it is: not what this was written for
        return False
    return False
