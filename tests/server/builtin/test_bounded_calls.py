"""What calls of health and reflection have in common: a slot, an answer to any message, and an end."""

import grpc
import pytest

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.builtin.bounded_calls import answer, end_calls, make_room
from tensor_reshape.server.builtin.call_slots import CallSlots
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.statuses import INTERNAL_ERROR, End
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY
from tensor_reshape.wire.status import Status


class Call:
    """A call that keeps how it was asked to go."""

    def __init__(self) -> None:
        self.refusals: list[LimitError | None] = []

    def give_up(self, refusal: LimitError | None) -> None:
        self.refusals.append(refusal)


def test_a_call_for_which_there_is_no_slot_has_another_told_to_go():
    slots, first, second = CallSlots[Call](1), Call(), Call()
    make_room(slots, first, "a")
    make_room(slots, second, "b")
    assert ([refusal and refusal.reason for refusal in first.refusals], second.refusals) == ([Reason.SERVER_BUSY], [])


def test_calls_that_have_a_slot_are_told_that_the_server_stops():
    slots, call, gone = CallSlots[Call](2), Call(), Call()
    for one in (call, gone):
        make_room(slots, one, "a")
    slots.free(gone)
    end_calls(slots)
    assert (call.refusals, gone.refusals) == ([None], [])


def build_head() -> CallHead:
    return CallHead("/a/B", ())


def test_an_answer_is_what_the_method_says():
    assert answer(build_head, bytes.upper, b"word") == b"WORD"


def find_a_bug(raw: bytes) -> bytes:
    raise RuntimeError(raw)


@pytest.mark.parametrize(
    ("raw", "code", "details"),
    [
        (None, "INVALID_ARGUMENT", "the call has no message"),
        (b"secret", "INTERNAL", INTERNAL_ERROR),
    ],
)
def test_what_is_no_answer_is_a_status_without_a_secret(raw: bytes | None, code: str, details: str):
    end = answer(build_head, find_a_bug, raw)
    assert isinstance(end, End)
    assert (end.ending.code, end.status.details) == (code, details)


def test_a_status_of_the_method_ends_the_call_with_the_id_of_its_request():
    head = build_head()
    end = answer(lambda: head, lambda _: Status(grpc.StatusCode.NOT_FOUND, "nothing there", ()), b"")
    assert end == (
        (grpc.StatusCode.NOT_FOUND, "nothing there", ((REQUEST_ID_KEY, head.request_id),)),
        ("NOT_FOUND", ""),
        "",
    )


@pytest.mark.parametrize(("size", "is_answered"), [(MAX_HEADER_BYTES, True), (MAX_HEADER_BYTES + 1, False)])
def test_a_message_is_not_longer_than_a_header_may_be(size: int, is_answered: bool):
    assert isinstance(answer(build_head, bytes, bytes(size)), bytes) == is_answered
