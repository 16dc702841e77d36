"""Gates: admission checks at the beginning of a call, for example authentication and quotas.

- A gate checks the `CallInfo` of a call when the call begins, before it takes a concurrency slot or memory. If the
  client of a call has no free slot, the call waits before it begins (see `AdmissionQueue`).
- Gates run in a fixed order until a gate rejects the call. When the call is over, or when a later gate rejects the
  call, the method `leave` of each gate that has admitted the call is called once.
- Gates do not check calls of the health methods, including those of the Open Inference Protocol. In contrast, gates
  check calls of the reflection methods.
- A gate may run on any thread, and the server holds no lock while the gate runs. A gate must not block, because it may
  run on the thread that receives all calls.
- If a gate raises an exception that is not a `ReshapeError`, the server logs a bug and rejects the call (fail closed).
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.server.calls.call_info import CallInfo

_LOGGER = logging.getLogger(__name__)


class Gate(Protocol):
    """Admits or rejects calls. The docstring of this module lists the rules for gates."""

    def admit(self, info: CallInfo) -> None:
        """Admits a call, or rejects it by raising an error.

        A gate may set `info.identity` for later gates and for observers.

        Raises:
            ReshapeError: the error with which the call is rejected.
        """

    def leave(self, info: CallInfo) -> None:
        """Handles the end of a call that this gate has admitted."""


class Gates:
    """A sequence of gates. The truth value of an empty sequence is False."""

    def __init__(self, gates: Sequence[Gate] = ()) -> None:
        """Keeps the gates in the order in which they run."""
        self._gates = tuple(gates)

    def __bool__(self) -> bool:
        """Whether there are gates."""
        return bool(self._gates)

    def find_rejection(self, info: CallInfo) -> ReshapeError | None:
        """Runs the gates and returns the first error, or None if all gates admit the call.

        If the call is admitted, `CallInfo.leave` must be called when the call is over.
        """
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
