"""The actions that follow from an event: a bug in one does not prevent the others, and a call that is over has none."""

import logging

import pytest

from engine_calls import Caller, make
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.engine.lifecycle import NOBODY


def fail(*_: object) -> None:
    message = "a secret"
    raise RuntimeError(message)


@pytest.mark.parametrize("fails_at", ["action", "gate"])
def test_exception_in_one_engine_action_does_not_stop_others(fails_at: str, caplog: pytest.LogCaptureFixture):
    other, info = Caller(make(4)), CallInfo("/a/B", (), at_end=[fail])
    with caplog.at_level(logging.ERROR):
        other.engine.perform([fail if fails_at == "action" else info.leave, other.start_work])
    assert other.works == 1
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)]


def test_state_of_a_call_that_is_over_keeps_no_handler():
    caller = Caller(make(4))
    assert caller.life.served is caller
    caller.leave()
    assert caller.life.served is NOBODY
