"""Calls of an engine that only record their actions, and transcripts of its events."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import MethodType
from typing import Any, Self

from tensor_reshape.rules.errors import LimitError, ReshapeError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.observers import CallLog
from tensor_reshape.server.calls.results import OK, CallResult
from tensor_reshape.server.calls.sources import Source, find_source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import Actions, CallHandler, Journal, Lifecycle
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


class Caller(CallHandler):
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


EVENTS = (
    "enter", "message_received", "request_work", "begin_work", "respond", "sent", "reserve", "end",
    "release", "sweep", "close",
)  # fmt: skip


class RecordedEngine(Engine):
    def __init__(
        self, config: Config, clock: Callable[[], float] = time.monotonic, journals: Sequence[Journal] = ()
    ) -> None:
        self.now = clock()
        self.lines: list[str] = []  # the lines of the transcript
        self._numbers: dict[Lifecycle, int] = {}
        super().__init__(config, journals, clock=lambda: self.now)
        for name in EVENTS:
            setattr(self, name, self._record(name, getattr(self, name), clock))

    def _record(self, name: str, event: Callable[..., Any], clock: Callable[[], float]) -> Callable[..., Any]:
        def note(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the arguments of the event
            self.now = clock()
            line = {"at": self.now, "event": name, "args": [self._describe(each) for each in args], **options}
            try:
                outcome = event(*args, **options)
            except ReshapeError as rejection:
                self.lines.append(json.dumps(line | {"outcome": str(rejection.reason)}))
                raise
            self.lines.append(json.dumps(line | {"outcome": self._describe(outcome)}))
            return outcome

        return note

    def _describe(self, value: object) -> object:
        if isinstance(value, Lifecycle):
            return {"call": self._numbers.setdefault(value, len(self._numbers))}
        if isinstance(value, bytes):
            return {"bytes": len(value)}
        if isinstance(value, partial | MethodType):
            action: Any = value.func if isinstance(value, partial) else value
            owner = action.__self__
            number = next(number for life, number in self._numbers.items() if owner in {life.info, life.handler})
            return f"{number} {action.__name__}"
        if isinstance(value, Source | CallResult):
            return {type(value).__name__.lower(): list(value)}
        if isinstance(value, list | tuple):
            return [self._describe(each) for each in value]
        return value


def replay(lines: Iterable[str], config: Config) -> list[str]:
    """Replays a transcript with a new engine of this configuration, and returns the new transcript."""
    times = iter([0.0, *(json.loads(line)["at"] for line in lines)])
    engine = RecordedEngine(config, lambda: next(times))
    calls: dict[int, Lifecycle] = {}
    for line in lines:
        noted = json.loads(line)
        args = [_read(each, calls) for each in noted["args"]]
        options = {name: value for name, value in noted.items() if name not in {"at", "event", "args", "outcome"}}
        with suppress(ReshapeError):  # the transcript contains it
            getattr(engine, noted["event"])(*args, **options)
    return engine.lines


def _read(value: Any, calls: dict[int, Lifecycle]) -> object:  # noqa: ANN401 - a JSON value
    match value:
        case {"call": int(number)}:
            return calls.setdefault(number, Lifecycle(CallHandler(), "/a.service/Method"))
        case {"bytes": int(size)}:
            return bytes(size)
        case {"source": [str(address), str(connection)]}:
            return Source(address, connection)
        case {"callresult": [str(code), str(reason)]}:
            return CallResult(code, reason)
        case list():
            return [_read(each, calls) for each in value]
    return value
