"""Observers are logs of calls. An observer decides at the beginning of each call whether to record the call at its end.

Two threads may run an observer at the same time. An observer must not block, because it may run on the thread that
receives calls. If an observer raises an exception when a call begins, the exception is logged and affects neither the
call nor other observers.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import EndedCall

_LOGGER = logging.getLogger(__name__)


class CallLog(Protocol):
    """Records calls that are over, for example in the access log or in a trace."""

    def chooses(self, metadata: Metadata) -> bool:
        """Whether this observer will record a call that begins with this metadata."""

    def begin(self, info: CallInfo) -> None:
        """Handles the beginning of a call that this observer will record. The gates check the call later."""

    def write(self, call: EndedCall) -> None:
        """Records a call that is over.

        This method must not block, because it may run on the thread that receives calls.
        """


def choose_observers(observers: Iterable[CallLog], metadata: Metadata) -> Sequence[CallLog]:
    """Returns the observers that choose to record a call with this metadata."""
    return [one for one in observers if _attempt(one.chooses, metadata)]


def begin_observers(observers: Iterable[CallLog], call: EndedCall) -> None:
    """Reports the beginning of a call to its observers. `CallInfo.leave` later makes each observer record the call."""
    for one in observers:
        call.info.at_end.append(partial(one.write, call))
        _attempt(one.begin, call.info)


def _attempt(action: Callable[..., Any], argument: object) -> Any:  # noqa: ANN401 - what the action returns
    try:
        return action(argument)
    except Exception:
        _LOGGER.exception("bug")
        return None
