"""Checks at the beginning of a call, which may refuse it: who may call, and how often. Such a check is attached here.

- A gate is asked with the head of a call, before the call takes a place or anything of the budget. Gates are also asked
  for a call without a place, so a caller without permission learns that, and not that the server is busy.
- Gates are asked in their order, until one refuses. `leave` of each gate that has admitted the call is called once,
  when the call is over, or when a later gate refuses it.
- Methods of health, and those of the Open Inference Protocol that ask for health, are open, so no gate is asked.
  The engine of reflection and channelz asks these gates.
- A gate is called on any thread, without a lock of this server. One of these threads receives all calls, so a gate must
  not block.
- If a gate raises anything else than a refusal, that is logged as a bug, and the call is refused.
- Without gates nothing is called or made.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.server.engine.heads import CallHead

_LOGGER = logging.getLogger(__name__)


class Gate(Protocol):
    """Admits calls or refuses them; see the laws of this module."""

    def admit(self, head: CallHead) -> None:
        """Lets a call in; may set `head.identity` for the gates that follow, and for observers.

        Raises:
            ReshapeError: the refusal, as the caller is told.
        """

    def leave(self, head: CallHead) -> None:
        """Hears that a call which it has admitted is over."""


class Gates:
    """A sequence of gates; false where there are none."""

    def __init__(self, gates: Sequence[Gate] = ()) -> None:
        """Asks `gates`, in this order."""
        self._gates = tuple(gates)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._gates)

    def find_refusal(self, head: CallHead) -> ReshapeError | None:
        """Asks every gate, and returns the first refusal; None: the call is let in, and `CallHead.leave` follows."""
        for gate in self._gates:
            try:
                gate.admit(head)
            except ReshapeError as refusal:
                head.leave()
                return refusal
            except Exception:
                _LOGGER.exception("bug", extra={"method": head.method})
                head.leave()
                return ReshapeError("internal error", reason=Reason.INTERNAL_ERROR)
            head.leavers.append(gate.leave)
        return None
