"""Effects are data that describe actions, such as aborting a call.

The engine returns effects, and the function `perform` calls the handlers, which carry out the actions.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from tensor_reshape.server.engine.lifecycle import Lifecycle

_LOGGER = logging.getLogger(__name__)


class Kind(Enum):
    """The actions that the engine can request.

    Each action is a method of `ServedCall`, except FORGET, which is a method of `Lifecycle`.

    Attributes:
        method: the name of the method.
    """

    START_READ = "start_read"
    START_SEND = "start_send"
    START_WORK = "start_work"
    ABORT = "abort"
    DROP = "drop"
    FORGET = "forget"

    def __init__(self, method: str) -> None:
        """Keeps the name of the method in an attribute.

        Reading `Enum.value` would run a Python function, which takes time.
        """
        self.method = method


class Effect(NamedTuple):
    """An action to perform for a call.

    Attributes:
        kind: the action.
        life: the call.
        arguments: the arguments of the method.
    """

    kind: Kind
    life: Lifecycle
    arguments: tuple[Any, ...] = ()


Effects: TypeAlias = Sequence[Effect]
"""The effects of an event, in the order in which they must be performed."""


class EndDecision(NamedTuple):
    """The outcome of `Engine.end`.

    Attributes:
        is_first: whether this event decided the end. If an earlier event decided the end, there is nothing to send.
        effects: the effects to perform.
    """

    is_first: bool
    effects: Effects


Perform: TypeAlias = Callable[[Iterable[Effect]], None]
"""Performs the effects of an event. The thread that reported the event calls it, without holding the engine's lock."""


def build_perform(deliver: Callable[[], None] | None) -> Perform:
    """Returns a function that calls `deliver` and then performs effects.

    `deliver` reports the recorded events to observers. Without observers, `deliver` must be None.
    """
    if deliver is None:
        return perform

    def deliver_and_perform(effects: Iterable[Effect]) -> None:
        deliver()
        perform(effects)

    return deliver_and_perform


def perform(effects: Iterable[Effect]) -> None:
    """Performs effects (see `Perform`).

    After the effect FORGET of a call, further effects for this call are skipped.
    """
    for kind, life, arguments in effects:
        try:
            if kind is _FORGET:
                life.forget()
            elif life.served is not None:
                getattr(life.served, kind.method)(*arguments)
        except Exception:
            # If performing an effect fails, the affected call makes no progress, so its stall timeout will end it. The
            # remaining effects, which are actions for other calls, must still be performed.
            _LOGGER.exception("bug")


_FORGET = Kind.FORGET
