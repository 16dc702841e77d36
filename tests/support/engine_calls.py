"""Calls of an engine that only record their actions."""

import time
from collections.abc import Callable, Sequence
from typing import Self

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import OK, CallLog
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import Actions, Journal, Lifecycle, ServedCall
from tensor_reshape.server.engine.stall_timeouts import StallTimeouts

MESSAGE = 1024
WORK = COST_FACTOR * MESSAGE
METHOD = "/a.service/Method"


def name_peer(host: int, port: int = 1) -> str:
    return f"ipv4:10.0.{host // 250}.{host % 250}:{port}"


PEER = name_peer(1)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Caller(ServedCall):
    """A call that has been entered, and its recorded actions.

    Attributes:
        reads: number of calls of `start_read`.
        works: number of calls of `start_work`.
        sends: number of calls of `start_send`.
        drops: number of calls of `drop`.
        rejections: the errors of the calls of `abort`.
    """

    def __init__(self, engine: Engine, peer: str = PEER, perform: Callable[[Actions], None] | None = None) -> None:
        self.engine, self.perform = engine, perform or engine.perform
        self.reads = self.works = self.sends = self.drops = 0
        self.rejections: list[LimitError] = []
        self.life = Lifecycle(self, METHOD)
        engine.prepare(self.life, (), lambda: CallInfo(METHOD, ()))
        self.perform(engine.enter(self.life, find_source(peer)))

    def start_read(self) -> None:
        self.reads += 1

    def start_send(self) -> None:
        self.sends += 1

    def start_work(self) -> None:
        self.works += 1

    def abort(self, rejection: LimitError) -> None:
        self.rejections.append(rejection)

    def drop(self, rejection: LimitError | None) -> None:
        del rejection
        self.drops += 1

    def arrive(self, size: int | None = MESSAGE) -> Self:
        self.engine.message_received(self.life, size)
        return self

    def work(self, size: int | None = None) -> Self:
        self.perform(self.engine.request_work(self.life, size))
        return self

    def begin_work(self) -> Self:
        self.engine.begin_work(self.life)
        return self

    def respond(self, *sizes: int, moved: int | None = None) -> Self:
        self.perform(self.engine.respond(self.life, [bytes(size) for size in sizes], moved))
        return self

    def sent(self, size: int) -> Self:
        self.perform(self.engine.sent(self.life, size))
        return self

    def reserve(self, size: int) -> Self:
        self.perform(self.engine.reserve(self.life, size))
        return self

    def end(self, size: int = 0) -> Self:
        self.perform(self.engine.end(self.life, OK, size)[1])
        return self

    def leave(self) -> None:
        self.perform(self.engine.release(self.life))

    @property
    def waits(self) -> bool:
        return self.life.claim is not None

    @property
    def reasons(self) -> list[str]:
        return [str(rejection.reason) for rejection in self.rejections]


def make(
    reads: int,
    *,
    message: int = MESSAGE,
    stall_timeout_seconds: float = 30.0,
    max_calls: int = 1024,
    journals: Sequence[Journal] = (),
    clock: Callable[[], float] = time.monotonic,
    timeouts: StallTimeouts | None = None,
    observers: Sequence[CallLog] = (),
) -> Engine:
    """Makes an engine with memory for this many messages. A quarter is reserved for addresses that hold little."""
    config = Config(
        max_message_bytes=message,
        memory_budget_bytes=100 * message,
        stall_timeout_seconds=stall_timeout_seconds,
        max_calls=max_calls,
    )
    # Less than the smallest valid budget, so that a few calls fill it.
    object.__setattr__(config, "memory_budget_bytes", 2 * (reads + 1) * message)
    return Engine(config, journals, clock=clock, timeouts=timeouts, observers=observers)


def call_all(engine: Engine, hosts: range) -> list[Caller]:
    """Enters one call of each address, which then receives or waits."""
    return [Caller(engine, name_peer(host)) for host in hosts]
