"""What calls of health, reflection and channelz have in common: they are answered whatever other callers do.

The engine's budget does not count them. Instead, at most `MAX_SILENT` calls may wait for their message, each of which
may have received nearly the largest one. When there is one more, the oldest call of the address with the most is given
up. So callers that send nothing drive each other out, and a call that comes with its message is answered.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import grpc

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.builtin.call_slots import CallSlots
from tensor_reshape.server.engine.gates import Gates
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.statuses import End, choose_end, complete_end, refuse_empty_call
from tensor_reshape.wire.fields import check_header_size
from tensor_reshape.wire.status import Status

MAX_SILENT = 16
"""How many calls may be without their message. Of an honest one it comes microseconds after the HTTP/2 headers."""

_Answer = TypeVar("_Answer")


class BoundedCall(Protocol):
    """A call that can be asked to go."""

    def give_up(self, refusal: LimitError | None) -> None:
        """Ends the call, with a refusal where the caller can be told; None: the server stops. Called on any thread."""


_Call = TypeVar("_Call", bound=BoundedCall)


def make_room(slots: CallSlots[_Call], call: _Call, holder: str) -> None:
    """Takes a slot for a call of `holder`; another, or the call itself, is given up where there is none."""
    leaver = slots.take(call, holder)
    if leaver is not None:
        leaver.give_up(_CROWDED)


def end_calls(slots: CallSlots[_Call]) -> None:
    """Ends the calls that have a slot, when the server stops."""
    for call in slots.list_calls():
        call.give_up(None)


def ask_gates(gates: Gates, find_head: Callable[[], CallHead], address: str) -> End | None:
    """Returns what ends a call that a gate refuses; None: the call is let in, and `CallHead.leave` follows.

    Args:
        gates: are asked for the call.
        find_head: returns its head; not called if there are no gates.
        address: of its caller.
    """
    if not gates:
        return None
    head = find_head()
    head.address = address
    refusal = gates.find_refusal(head)
    return None if refusal is None else choose_end(refusal, head)


def answer(
    find_head: Callable[[], CallHead], respond: Callable[[bytes], _Answer | Status], raw: bytes | None
) -> _Answer | End:
    """Returns the answer to a message, or what ends the call.

    Args:
        find_head: returns the head of the call, where that ends badly.
        respond: answers a message.
        raw: the message; None where the caller has sent none.
    """
    try:
        outcome = respond(_check_message(raw))
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
        return choose_end(error, find_head())
    return complete_end(outcome, find_head()) if isinstance(outcome, Status) else outcome


def _check_message(raw: bytes | None) -> bytes:
    if raw is None:
        raise refuse_empty_call()
    check_header_size(len(raw))
    return raw


STOPPING = Status(grpc.StatusCode.UNAVAILABLE, "the server stops", ())
"""What ends a call that stays open as long as the server: no failure, and no line of the log."""

_CROWDED = LimitError.of(Reason.SERVER_BUSY, "too many calls of this kind are open, most of them yours")
