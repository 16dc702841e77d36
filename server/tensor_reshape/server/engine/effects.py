"""Effects of events as data: the engine returns them, and `perform` performs them."""

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from tensor_reshape.server.engine.lifecycle import Lifecycle

_LOGGER = logging.getLogger(__name__)


class Kind(Enum):
    """The actions that the engine can request. Each is a method of `ServedCall`, except FORGET.

    Attributes:
        method: the name of that method.
    """

    START_READ = "start_read"
    START_SEND = "start_send"
    START_WORK = "start_work"
    ABORT = "abort"
    DROP = "drop"
    FORGET = "forget"

    def __init__(self, method: str) -> None:
        """Keeps the name. Reading `Enum.value` would run a Python function for each effect."""
        self.method = method


class Effect(NamedTuple):
    """One action for one call.

    Attributes:
        kind: the action.
        life: the call.
        arguments: the arguments of the method.
    """

    kind: Kind
    life: Lifecycle
    arguments: tuple[Any, ...] = ()


Effects: TypeAlias = Sequence[Effect]
"""The effects of an event, to be performed in this order."""

Perform: TypeAlias = Callable[[Iterable[Effect]], None]
"""Performs the effects of an event, on the thread that reported the event, without the engine's lock."""


def build_perform(deliver: Callable[[], None] | None) -> Perform:
    """Returns a function that performs effects; it first calls `deliver`, which reports recorded moves to observers."""
    if deliver is None:
        return perform

    def deliver_and_perform(effects: Iterable[Effect]) -> None:
        deliver()
        perform(effects)

    return deliver_and_perform


def perform(effects: Iterable[Effect]) -> None:
    """Performs effects: see `Perform`. A call that was forgotten has none."""
    for kind, life, arguments in effects:
        try:
            if kind is _FORGET:
                life.forget()
            elif life.served is not None:
                getattr(life.served, kind.method)(*arguments)
        except Exception:
            _LOGGER.exception("bug")  # this call stalls until its timeout; the other effects must still happen


_FORGET = Kind.FORGET
