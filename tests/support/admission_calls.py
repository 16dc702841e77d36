"""Calls of an admission that do nothing but keep what happened."""

from collections.abc import Sequence
from typing import Self

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.lifecycle import Lifecycle, State
from tensor_reshape.server.calls.observers import Observer
from tensor_reshape.server.calls.statuses import OK
from tensor_reshape.server.config import COST_FACTOR, Config

MESSAGE = 1024
WORK = COST_FACTOR * MESSAGE
METHOD = "/a.service/Method"


class Caller:
    """A call, and what follows from its moves.

    Attributes:
        started: how often it has begun to receive.
        works: how often it has had room to work.
        sends: how often it was told that there is something to send.
        cancels: how often it was cancelled.
        refusals: with which it was given up.
    """

    def __init__(self, admission: Admission, peer: str = "a") -> None:
        self.admission = admission
        self.started = self.works = self.sends = self.cancels = 0
        self.refusals: list[LimitError] = []
        self.life = Lifecycle(self, METHOD)
        admission.enter(self.life, peer)

    def start_read(self) -> None:
        self.started += 1

    def start_send(self) -> None:
        self.sends += 1

    def start_work(self) -> None:
        self.works += 1

    def give_up(self, refusal: LimitError, state: State) -> None:
        del state
        self.refusals.append(refusal)

    def drop(self, refusal: LimitError) -> None:
        del refusal
        self.cancels += 1

    def read(self) -> Self:
        self.admission.request_read(self.life)
        return self

    def arrive(self, size: int = MESSAGE) -> Self:
        self.admission.message_received(self.life, size)
        return self

    def work(self, size: int | None = None) -> Self:
        self.admission.request_work(self.life, size)
        return self

    def take_up(self) -> Self:
        self.admission.take_up(self.life)
        return self

    def answer(self, *sizes: int, moved: int | None = None) -> Self:
        self.admission.answer(self.life, [bytes(size) for size in sizes], moved)
        return self

    def end(self, size: int = 0) -> Self:
        self.admission.end(self.life, OK, size)
        return self

    def leave(self) -> None:
        self.admission.release(self.life)

    @property
    def waits(self) -> bool:
        return self.life.claim is not None


def make(
    reads: int,
    *,
    message: int = MESSAGE,
    stall_seconds: float = 30.0,
    max_calls: int = 1024,
    observers: Sequence[Observer] = (),
) -> Admission:
    """Has room to receive so many messages, a quarter of them for connections that have nothing."""
    budget = 2 * reads * message + 2 * message
    config = Config(
        max_message_bytes=message, memory_budget_bytes=100 * message, stall_seconds=stall_seconds, max_calls=max_calls
    )
    object.__setattr__(
        config, "memory_budget_bytes", budget
    )  # less than may be configured, so that a few calls fill it
    return Admission(config, observers)


def fill(admission: Admission, reads: int) -> list[Caller]:
    """Has so many connections receive a message each."""
    return [Caller(admission, f"filler {number}").read() for number in range(reads)]
