"""Gates: admission checks at the beginning of a call, for example authentication and quotas.

- A gate checks a call by its `CallInfo` before the call takes a concurrency slot or memory. Gates also check calls that
  will get no slot. A client without permission therefore gets PERMISSION_DENIED, not SERVER_BUSY.
- Gates run in their order until one rejects the call. `leave` of each gate that has admitted the call is called once:
  when the call is over, or when a later gate rejects it.
- Health methods, and the health methods of the Open Inference Protocol, have no gates. Reflection has.
- A gate runs on any thread, without a lock of this server. One of these threads receives all calls, so a gate must not
  block.
- If a gate raises an exception that is not a `ReshapeError`, the server logs a bug and rejects the call (fail closed).
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.server.engine.call_info import CallInfo

_LOGGER = logging.getLogger(__name__)


class Gate(Protocol):
    """Admits or rejects calls; see the invariants of this module."""

    def admit(self, info: CallInfo) -> None:
        """Admits a call. A gate may set `info.identity` for later gates and for observers.

        Raises:
            ReshapeError: the call is rejected with this error.
        """

    def leave(self, info: CallInfo) -> None:
        """Called when a call that this gate has admitted is over."""


class Gates:
    """A sequence of gates; false if it is empty."""

    def __init__(self, gates: Sequence[Gate] = ()) -> None:
        """Keeps the gates in the order in which they run."""
        self._gates = tuple(gates)

    def __bool__(self) -> bool:
        """Whether there are gates."""
        return bool(self._gates)

    def find_rejection(self, info: CallInfo) -> ReshapeError | None:
        """Runs the gates and returns the first error. None: the call is admitted, and `CallInfo.leave` must follow."""
        for gate in self._gates:
            try:
                gate.admit(info)
            except ReshapeError as rejection:
                info.leave()
                return rejection
            except Exception:
                _LOGGER.exception("bug", extra={"method": info.method})
                info.leave()
                return ReshapeError("internal error", reason=Reason.INTERNAL_ERROR)
            info.gates_to_leave.append(gate.leave)
        return None
