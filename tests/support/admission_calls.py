"""Calls of an admission with plain callbacks that keep what happened."""

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.tickets import Ticket
from tensor_reshape.server.config import COST_FACTOR, Config

MESSAGE = 1024
WORK = COST_FACTOR * MESSAGE


class Caller:
    """A call with plain callbacks that keep what happened."""

    def __init__(self, admission: Admission, peer: str = "a", log: list["Caller"] | None = None) -> None:
        self.admission = admission
        self.started = 0
        self.works = 0
        self.refusals: list[LimitError] = []
        self.ticket = Ticket(self._start, self.refusals.append)
        self._log = log
        admission.enter(self.ticket, peer)

    def _start(self) -> None:
        self.started += 1
        if self._log is not None:
            self._log.append(self)

    def read(self) -> "Caller":
        self.admission.read(self.ticket)
        return self

    def work(self, size: int = WORK) -> "Caller":
        self.admission.work(self.ticket, size, self._work)
        return self

    def _work(self) -> None:
        self.works += 1

    def leave(self) -> None:
        self.admission.leave(self.ticket)

    @property
    def waits(self) -> bool:
        return self.ticket.claim is not None


def make(reads: int, *, message: int = MESSAGE, stall_seconds: float = 30.0, max_calls: int = 1024) -> Admission:
    """Has room to receive so many messages, a quarter of them for connections that have nothing."""
    budget = 2 * reads * message + 2 * message
    config = Config(
        max_message_bytes=message, memory_budget_bytes=100 * message, stall_seconds=stall_seconds, max_calls=max_calls
    )
    object.__setattr__(
        config, "memory_budget_bytes", budget
    )  # less than may be configured, so that a few calls fill it
    return Admission(config)


def fill(admission: Admission, reads: int) -> list[Caller]:
    """Has so many connections receive a message each."""
    return [Caller(admission, f"filler {number}").read() for number in range(reads)]
