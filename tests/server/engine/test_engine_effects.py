"""The effects of an event are performed for each call, and a bug in one call does not prevent those of other calls."""

import logging

import pytest

from engine_calls import Caller, make
from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.engine.lifecycle import Effect, EffectKind, State
from tensor_reshape.server.engine.stall_timeouts import reject_idle

REJECTION = reject_idle(State.RECEIVING, 5.0, is_pressed=False)
REJECTED = {EffectKind.ABORT, EffectKind.DROP}


class Recorder(Caller):
    """A call that records the names of its effects, and raises an exception in one of them."""

    def __init__(self, fails_at: str = "") -> None:
        self.done: list[str] = []
        self._fails_at = fails_at
        super().__init__(make(4), perform=lambda _effects: None)

    def start_read(self) -> None:
        self._note("START_READ")

    def start_send(self) -> None:
        self._note("START_SEND")

    def start_work(self) -> None:
        self._note("START_WORK")

    def abort(self, rejection: LimitError) -> None:
        self._note(f"ABORT {rejection.reason}")

    def drop(self, rejection: LimitError | None) -> None:
        self._note(f"DROP {rejection.reason if rejection else None}")

    def _note(self, what: str) -> None:
        if what.split(maxsplit=1)[0] == self._fails_at:
            raise RuntimeError(what)
        self.done.append(what)

    def build(self, kind: EffectKind) -> Effect:
        return Effect(kind, self.life, REJECTION if kind in REJECTED else None)


DONE = {
    EffectKind.START_READ: ["START_READ"],
    EffectKind.START_SEND: ["START_SEND"],
    EffectKind.START_WORK: ["START_WORK"],
    EffectKind.ABORT: ["ABORT STALLED"],
    EffectKind.DROP: ["DROP STALLED"],
    EffectKind.FORGET: [],
}


@pytest.mark.parametrize("kind", EffectKind, ids=lambda kind: kind.name)
def test_engine_effects_are_performed_by_the_matching_call_method(kind: EffectKind):
    call = Recorder()
    call.engine.perform([call.build(kind)])
    assert call.done == DONE[kind]
    assert call.life.served is (None if kind is EffectKind.FORGET else call)


def test_engine_effects_of_a_forgotten_call_are_not_performed():
    call = Recorder()
    call.engine.perform([call.build(kind) for kind in (EffectKind.FORGET, *EffectKind)])
    assert call.done == []


@pytest.mark.parametrize("kind", EffectKind, ids=lambda kind: kind.name)
def test_exception_in_one_engine_effect_does_not_stop_others(kind: EffectKind, caplog: pytest.LogCaptureFixture):
    def fail(info: CallInfo) -> None:
        raise RuntimeError(info)

    broken, other = Recorder(fails_at=kind.name), Recorder()
    broken.life.info = CallInfo("/a/B", ())
    broken.life.info.gates_to_leave.append(fail)
    with caplog.at_level(logging.ERROR):
        broken.engine.perform([broken.build(kind), other.build(EffectKind.START_READ)])
    assert (broken.done, other.done) == ([], ["START_READ"])
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)]
