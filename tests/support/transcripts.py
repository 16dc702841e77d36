"""Transcripts of an engine: its events and their outcomes as lines of text, to print and to replay in a test.

A line is a JSON object: the time, the event (a method of the engine), the number of the call, the other arguments, and
what came back. Sizes take the place of answers, and results are pairs of text.
"""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import MethodType
from typing import Any

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.lifecycle import Lifecycle, ServedCall

EVENTS = (
    "enter", "message_received", "request_work", "begin_work", "respond", "sent", "reserve", "end",
    "release", "sweep", "close",
)  # fmt: skip


class RecordedEngine(Engine):
    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = clock()
        self.lines: list[str] = []  # the lines of the transcript
        self._numbers: dict[Lifecycle, int] = {}
        super().__init__(config, clock=lambda: self.now)
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
            number = next(number for life, number in self._numbers.items() if owner in {life.info, life.served})
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
            return calls.setdefault(number, Lifecycle(ServedCall(), "/a.service/Method"))
        case {"bytes": int(size)}:
            return bytes(size)
        case {"source": [str(address), str(connection)]}:
            return Source(address, connection)
        case {"callresult": [str(code), str(reason)]}:
            return CallResult(code, reason)
        case list():
            return [_read(each, calls) for each in value]
    return value
