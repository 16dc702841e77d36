"""Calls of health, reflection and channelz as grpcio serves them by itself: each holds a thread of its own kind's.

There are more threads than slots. So a thread is free for a call that comes, which then drives out another.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import grpc

from tensor_reshape.server.auxiliary.bounded_calls import AuxiliaryCall, answer, make_room
from tensor_reshape.server.auxiliary.call_slots import CallSlots
from tensor_reshape.server.auxiliary.health import Health
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.statuses import choose_end, end_call
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
        with _pass_gates(self._gates, self._name, context):
            with _hold_slot(self._slots, context):
                raw = next(requests, None)
            return _check_answer(answer(partial(_build_head, self._name, context), self._respond, raw), context)

    def answer_each(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serves a call with any number of messages. It keeps its slot to the end."""
        build_head = partial(_build_head, self._name, context)
        with _pass_gates(self._gates, self._name, context), _hold_slot(self._slots, context):
            for raw in requests:
                yield _check_answer(answer(build_head, self._respond, raw), context)


class ThreadedWatch:
    """The method Watch."""

    def __init__(self, name: str, health: Health) -> None:
        """Serves calls with `watch`."""
        self._name = name
        self._health = health

    def watch(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serves a call; it holds a thread until it ends."""
        with _hold_slot(self._health.silent, context):
            raw = next(requests, None)
        watch = _check_answer(answer(partial(_build_head, self._name, context), self._health.open_watch, raw), context)
        watcher = _Watcher(context)
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

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def give_up(self, status: Status) -> None:
        del status  # nothing else ends a read, or a write, of grpcio: the caller sees CANCELLED
        self._context.cancel()


class _Watcher(_Caller):
    def __init__(self, context: grpc.ServicerContext) -> None:
        super().__init__(context)
        self._news: SimpleQueue[None] = SimpleQueue()
        # The end is news, too: the thread waits for nothing else.
        if not context.add_callback(self.look):
            self.look()  # the caller has left already

    def look(self) -> None:
        self._news.put(None)

    def wait(self) -> None:
        self._news.get()


def _build_head(name: str, context: grpc.ServicerContext) -> CallHead:
    head = CallHead(name, context.invocation_metadata())
    name_caller(head, context)
    return head


@contextmanager
def _pass_gates(gates: Gates, name: str, context: grpc.ServicerContext) -> Iterator[None]:
    if not gates:
        yield
        return
    head = _build_head(name, context)
    refusal = gates.find_refusal(head)
    if refusal is not None:
        end_call(context, choose_end(refusal, head).status)
    try:
        yield
    finally:
        head.leave()


@contextmanager
def _hold_slot(slots: CallSlots[AuxiliaryCall], context: grpc.ServicerContext) -> Iterator[None]:
    call = _Caller(context)
    make_room(slots, call, context.peer())
    try:
        yield
    finally:
        slots.free(call)


def _check_answer(outcome: _Answer | Status, context: grpc.ServicerContext) -> _Answer:
    if isinstance(outcome, Status):
        end_call(context, outcome)
    return outcome
