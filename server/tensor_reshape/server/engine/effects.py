"""Effects of events as data: the engine returns them, and the handlers perform them."""

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.engine.lifecycle import Lifecycle, State

_LOGGER = logging.getLogger(__name__)


class Kind(Enum):
    """The actions that the engine can request."""

    START_READ = auto()
    START_SEND = auto()
    START_WORK = auto()
    GIVE_UP = auto()
    DROP = auto()
    FORGET = auto()

    __hash__ = object.__hash__  # by identity, as members compare: that of Enum is a Python function, called per effect


class Effect(NamedTuple):
    """One action for one call, which a method of `ServedCall` performs.

    Attributes:
        kind: the action.
        life: the call.
        rejection: the error of GIVE_UP and DROP. For DROP it is None if the server stops.
        state: for GIVE_UP, the state of the call before.
    """

    kind: Kind
    life: Lifecycle
    rejection: LimitError | None = None
    state: State | None = None

    def __repr__(self) -> str:
        """Returns it as a transcript shows it."""
        return f"{self.kind.name} {self.life.method}" + (f" {self.rejection.reason}" if self.rejection else "")


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
    """Performs effects: see `Perform`."""
    for effect in effects:
        try:
            if effect.kind is _START_READ:  # the first two branches are the effects of every call
                effect.life.served.start_read()
            elif effect.kind is _FORGET:
                effect.life.forget()
            else:
                _perform(effect)
        except Exception:
            _LOGGER.exception("bug")  # this call stalls until its timeout; the other effects must still happen


def _perform(effect: Effect) -> None:
    kind, life = effect.kind, effect.life
    if kind is Kind.START_SEND:
        life.served.start_send()
    elif kind is Kind.START_WORK:
        life.served.start_work()
    elif kind is Kind.DROP:
        life.served.drop(effect.rejection)
    elif effect.rejection is not None and effect.state is not None:
        life.served.give_up(effect.rejection, effect.state)


_START_READ, _FORGET = Kind.START_READ, Kind.FORGET
