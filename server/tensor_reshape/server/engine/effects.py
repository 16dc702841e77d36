"""What follows from an event of a call, as data: the engine returns it, the handlers perform it."""

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.engine.lifecycle import Lifecycle, State

_LOGGER = logging.getLogger(__name__)


class Kind(Enum):
    """What is to be done for a call."""

    START_READ = auto()
    START_SEND = auto()
    START_WORK = auto()
    GIVE_UP = auto()
    DROP = auto()
    FORGET = auto()

    __hash__ = object.__hash__  # by identity, as members compare: that of Enum is a Python function, called per effect


class Effect(NamedTuple):
    """Something that is to be done for a call, by a method of `ServedCall`.

    Attributes:
        kind: what.
        life: of the call.
        refusal: with GIVE_UP and DROP: why; with DROP, None where the server stops.
        state: with GIVE_UP: what the call was doing.
    """

    kind: Kind
    life: Lifecycle
    refusal: LimitError | None = None
    state: State | None = None

    def __repr__(self) -> str:
        """Returns it as a transcript shows it."""
        return f"{self.kind.name} {self.life.method}" + (f" {self.refusal.reason}" if self.refusal else "")


Perform: TypeAlias = Callable[[Iterable[Effect]], None]
"""Does what follows from an event; called without the lock of the engine, on the thread that brought the event."""


def build_perform(deliver: Callable[[], None] | None) -> Perform:
    """Returns what performs effects; `deliver` tells observers first of what the engine has noted."""
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
            if effect.kind is _START_READ:  # these two here, since every call has them
                effect.life.served.start_read()
            elif effect.kind is _FORGET:
                effect.life.forget()
            else:
                _perform(effect)
        except Exception:
            _LOGGER.exception("bug")  # of one call, which stalls; the others are not to blame


def _perform(effect: Effect) -> None:
    kind, life = effect.kind, effect.life
    if kind is Kind.START_SEND:
        life.served.start_send()
    elif kind is Kind.START_WORK:
        life.served.start_work()
    elif kind is Kind.DROP:
        life.served.drop(effect.refusal)
    elif effect.refusal is not None and effect.state is not None:
        life.served.give_up(effect.refusal, effect.state)


_START_READ, _FORGET = Kind.START_READ, Kind.FORGET
