"""Calls of health and reflection as grpcio serves them by itself: each holds a thread of its own kind's.

There are more threads than slots. So a thread is free for a call that comes, which then drives out another.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from queue import SimpleQueue
from typing import TypeVar

import grpc

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.auxiliary.bounded_calls import AuxiliaryCall, answer, make_room
from tensor_reshape.server.auxiliary.call_slots import CallSlots
from tensor_reshape.server.auxiliary.health import Health
from tensor_reshape.server.calls.call_logs import log_bad_end
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.lifecycle import GONE, Ending
from tensor_reshape.server.calls.statuses import End, choose_end, end_call
from tensor_reshape.server.calls.threaded import name_caller
from tensor_reshape.wire.status import Status

_Answer = TypeVar("_Answer")

SPARE_THREADS = 8
"""How many there are besides one for each slot."""


class ThreadedMethod:
    """A method whose messages are answered one by one."""

    def __init__(
        self, name: str, respond: Callable[[bytes], bytes | Status], slots: CallSlots[AuxiliaryCall], gates: Gates
    ) -> None:
        """Serves calls with `answer_one` or `answer_each`; `gates` are asked for each."""
        self._name = name
        self._gates = gates
        self._respond = respond
        self._slots = slots

    def answer_one(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Serves a call with one message."""
        caller = _Caller(self._name, context)
        with _pass_gates(self._gates, caller):
            with _hold_slot(self._slots, caller):
                raw = next(requests, None)
            return caller.check_answer(answer(caller.find_head, self._respond, raw))

    def answer_each(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serves a call with any number of messages. It keeps its slot to the end."""
        caller = _Caller(self._name, context)
        with _pass_gates(self._gates, caller), _hold_slot(self._slots, caller):
            for raw in requests:
                yield caller.check_answer(answer(caller.find_head, self._respond, raw))


class ThreadedWatch:
    """The method Watch."""

    def __init__(self, name: str, health: Health) -> None:
        """Serves calls with `watch`."""
        self._name = name
        self._health = health

    def watch(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serves a call; it holds a thread until it ends."""
        watcher = _Watcher(self._name, context)
        with _hold_slot(self._health.silent, watcher):
            raw = next(requests, None)
        watch = watcher.check_answer(answer(watcher.find_head, self._health.open_watch, raw))
        self._health.join(watcher, context.peer())
        try:
            while context.is_active():
                news = watch.find_news()
                if news is not None:
                    yield news
                elif watch.is_over:
                    return
                else:
                    watcher.wait()
        finally:
            self._health.leave(watcher)


class _Caller:
    """A call as others see it."""

    def __init__(self, name: str, context: grpc.ServicerContext) -> None:
        self.context = context
        self._name = name
        self._began = time.monotonic()

    @cached_property
    def head(self) -> CallHead:
        head = CallHead(self._name, self.context.invocation_metadata())
        name_caller(head, self.context)
        return head

    def find_head(self) -> CallHead:
        return self.head

    def give_up(self, refusal: LimitError | None) -> None:
        """Ends the call; nothing else ends a read, or a write, of grpcio: the caller sees CANCELLED."""
        if refusal is not None:
            log_bad_end(self.head, Ending(GONE.code, str(refusal.reason)), self._began)
        self.context.cancel()

    def check_answer(self, outcome: _Answer | End) -> _Answer:
        """Returns what is an answer; anything else ends the call."""
        if isinstance(outcome, End):
            log_bad_end(self.head, outcome.ending, self._began, outcome.field)
            end_call(self.context, outcome.status)
        return outcome


class _Watcher(_Caller):
    def __init__(self, name: str, context: grpc.ServicerContext) -> None:
        super().__init__(name, context)
        self._news: SimpleQueue[None] = SimpleQueue()
        # The end is news, too: the thread waits for nothing else.
        if not context.add_callback(self.look):
            self.look()  # the caller has left already

    def look(self) -> None:
        self._news.put(None)

    def wait(self) -> None:
        self._news.get()


@contextmanager
def _pass_gates(gates: Gates, caller: _Caller) -> Iterator[None]:
    if not gates:
        yield
        return
    refusal = gates.find_refusal(caller.head)
    if refusal is not None:
        caller.check_answer(choose_end(refusal, caller.head))
    try:
        yield
    finally:
        caller.head.leave()


@contextmanager
def _hold_slot(slots: CallSlots[AuxiliaryCall], caller: _Caller) -> Iterator[None]:
    make_room(slots, caller, caller.context.peer())
    try:
        yield
    finally:
        slots.free(caller)
