"""Refusals travel as google.rpc.Status details, and arrive as what they were."""

from urllib.parse import quote

import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, DebugInfo, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as StatusMessage
from grpc import StatusCode
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.errors import (
    InvalidRequestError,
    LimitError,
    NotFoundError,
    PermissionDeniedError,
    Reason,
    ReshapeError,
    UnauthenticatedError,
)
from tensor_reshape.wire.status import DETAILS_KEY, DOMAIN, Status, decode_refusal, encode_refusal

CODES = {
    InvalidRequestError: StatusCode.INVALID_ARGUMENT,
    NotFoundError: StatusCode.NOT_FOUND,
    UnauthenticatedError: StatusCode.UNAUTHENTICATED,
    PermissionDeniedError: StatusCode.PERMISSION_DENIED,
    LimitError: StatusCode.RESOURCE_EXHAUSTED,
}
KINDS = sorted(CODES, key=str)
SMALL = "small enough to travel whole"


def read(error: ReshapeError | None) -> tuple[object, ...] | None:
    return None if error is None else (type(error), error.message, error.reason, error.field, error.metadata)


def read_details(status: Status) -> StatusMessage:
    packed = dict(status.trailing_metadata)[DETAILS_KEY]
    assert isinstance(packed, bytes)
    return StatusMessage.FromString(packed)


def travel(error: ReshapeError) -> ReshapeError | None:
    status = encode_refusal(error)
    return decode_refusal(status.code, status.trailing_metadata)


def refuse(reason: Reason) -> ReshapeError:
    kind = next(kind for kind in (ReshapeError, *CODES) if kind.code_name == reason.code_name)
    return kind.of(reason, SMALL, "shape[1]", index=1, value=-2, shape=(1, -2))


# Of a bug there is no refusal but as the answer of one item of a batch.
TRAVELLING = sorted(set(Reason) - {Reason.INTERNAL_ERROR})


@pytest.mark.parametrize("reason", TRAVELLING, ids=str)
def test_a_refusal_arrives_as_it_was(reason: Reason):
    error = refuse(reason)
    assert read(travel(error)) == read(error)
    assert encode_refusal(error).code is CODES[type(error)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reason_to_come_has_the_code_of_its_class(kind: type[ReshapeError]):
    assert encode_refusal(kind(SMALL, reason="SOMETHING_NEW")).code is CODES[kind]


@pytest.mark.parametrize("reason", ["NOT_DIVISIBLE", "SOMETHING_NEW"])
def test_a_refusal_of_a_class_of_its_own_has_the_code_of_its_parent(reason: str):
    class OddTargetError(InvalidRequestError):
        pass

    assert encode_refusal(OddTargetError(SMALL, reason=reason)).code is StatusCode.INVALID_ARGUMENT


def test_a_bug_ends_a_call_with_the_code_of_bugs():
    assert encode_refusal(ReshapeError(SMALL, reason=Reason.INTERNAL_ERROR)).code is StatusCode.INTERNAL


def test_a_refusal_without_field_and_metadata_arrives_as_it_was():
    error = LimitError(SMALL, reason=Reason.HEAD_TOO_LARGE)
    assert read(travel(error)) == read(error)


def test_a_reason_to_come_arrives_as_text():
    error = travel(InvalidRequestError(SMALL, reason="SOMETHING_NEW"))
    assert error is not None
    assert (type(error.reason), error.reason) == (str, "SOMETHING_NEW")


def test_a_client_in_any_language_finds_the_standard_details():
    error = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", index=1)
    status = encode_refusal(error)
    message = read_details(status)
    info, request = ErrorInfo(), BadRequest()
    assert message.details[0].Unpack(info)
    assert message.details[1].Unpack(request)
    assert (status.details, message.code, message.message, len(message.details)) == ("no", 3, "no", 2)
    assert info == ErrorInfo(reason="NOT_DIVISIBLE", domain="tensor_reshape.v1", metadata={"index": "1"})
    assert request.field_violations == [BadRequest.FieldViolation(field="shape[1]", description="no")]


def test_no_field_is_no_violation():
    status = encode_refusal(LimitError("no", reason=Reason.HEAD_TOO_LARGE))
    assert len(read_details(status).details) == 1


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_a_client_in_any_language_is_told_when_to_come_again_where_that_helps(reason: Reason):
    status = encode_refusal(refuse(reason))
    expected = "200" if reason in (Reason.SERVER_BUSY, Reason.STALLED, Reason.QUOTA_EXCEEDED) else None
    assert dict(status.trailing_metadata).get("grpc-retry-pushback-ms") == expected


def test_the_sdk_is_told_when_to_come_again():
    error = travel(LimitError.of(Reason.SERVER_BUSY, "no"))
    assert isinstance(error, LimitError)
    assert error.retry_seconds == 0.2


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, 0), (0.0001, 1), (2.5, 2500), (1e9, 2**31 - 1)])
def test_a_refusal_that_knows_when_there_is_room_says_so_to_every_client(seconds: float, milliseconds: int):
    refusal = LimitError.of(Reason.QUOTA_EXCEEDED, "no")
    refusal.retry_seconds = seconds
    assert dict(encode_refusal(refusal).trailing_metadata)["grpc-retry-pushback-ms"] == str(milliseconds)
    error = travel(refusal)
    assert isinstance(error, LimitError)
    assert error.retry_seconds == milliseconds / 1000


def test_a_limit_that_stays_says_nothing_of_another_time():
    error = travel(LimitError.of(Reason.TENSOR_TOO_LARGE, "no"))
    assert isinstance(error, LimitError)
    assert error.retry_seconds is None


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected"),
    [(0, 0, 0), (3, 500_000_000, 3.5), (0, 1, 1e-9), (-5, 0, 0), (0, -5, 0), (2**40, 0, 1e9)],
)
def test_another_servers_time_is_read_and_never_negative(seconds: int, nanos: int, expected: float):
    delay = Duration(seconds=seconds, nanos=nanos)
    details = pack(ErrorInfo(reason="SERVER_BUSY", domain=DOMAIN), RetryInfo(retry_delay=delay))
    error = decode_refusal(StatusCode.RESOURCE_EXHAUSTED, details)
    assert isinstance(error, LimitError)
    assert error.retry_seconds == expected


HOSTILE = {
    "plain": "x" * 100_000,
    "of two bytes": "é" * 100_000,
    "of four bytes": "\U0001f600" * 100_000,
    "control characters": "\r\n\x00\x1b" * 25_000,
    "per cent": "%" * 100_000,
    "a lone surrogate": "\ud800" * 100_000,
}


def measure(error: ReshapeError) -> int:
    """Returns the bytes of the status in the trailers, where its text is percent-encoded."""
    status = encode_refusal(error)
    printable = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
    return len(quote(status.details, safe=printable)) + len(dict(status.trailing_metadata)[DETAILS_KEY])


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("reason", [max(Reason, key=len), Reason.SERVER_BUSY], ids=str)
def test_a_status_stays_below_7_kib(reason: Reason, text: str):
    metadata = {f"the_key_number_{at}": text for at in range(1000)}
    error = type(refuse(reason))(text, reason=reason, field=text, metadata=metadata)
    assert measure(error) < 7 * 1024


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_text_of_a_status_is_ascii(text: str):
    assert encode_refusal(InvalidRequestError(text, reason=Reason.NOT_DIVISIBLE)).details.isascii()


@settings(deadline=None)
@given(st.text(), st.text(), st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.text()))
def test_a_clipped_refusal_is_still_a_refusal(message: str, field: str, metadata: dict[str, str]):
    twin = travel(InvalidRequestError(message, reason=Reason.NOT_DIVISIBLE, field=field, metadata=metadata))
    assert twin is not None
    assert twin.reason is Reason.NOT_DIVISIBLE
    assert bool(twin.field) == bool(field)
    assert len(twin.metadata) == min(10, len(metadata))


def pack(*details: Message) -> list[tuple[str, str | bytes]]:
    message = StatusMessage(code=3, message="no")
    for detail in details:
        packed = Any()
        packed.Pack(detail)
        message.details.append(packed)
    return [("other", "text"), (DETAILS_KEY, message.SerializeToString())]


OURS = ErrorInfo(reason="NOT_DIVISIBLE", domain=DOMAIN, metadata={"index": "1"})
FOREIGN = ErrorInfo(reason="BLOCKED", domain="proxy.example")

# What a call ended with that was no refusal of this service.
NOT_OURS: dict[str, list[tuple[str, str | bytes]]] = {
    "no trailing metadata": [],
    "other metadata": [("other", "text"), ("other-bin", b"\x00")],
    "no bytes": [(DETAILS_KEY, "text")],
    "empty": [(DETAILS_KEY, b"")],
    "malformed": [(DETAILS_KEY, b"\xff\xff")],
    "malformed within": [
        (DETAILS_KEY, StatusMessage(details=[Any(type_url="/google.rpc.ErrorInfo", value=b"\xff")]).SerializeToString())
    ],
    "no details": pack(),
    "another domain": pack(FOREIGN),
    "no domain": pack(ErrorInfo(reason="NOT_DIVISIBLE")),
    "another kind of detail": pack(DebugInfo(detail="here")),
    "a violation without a reason": pack(BadRequest(field_violations=[BadRequest.FieldViolation(field="shape")])),
}


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.name)
@pytest.mark.parametrize("metadata", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_foreign_details_are_no_refusal(metadata: list[tuple[str, str | bytes]], code: StatusCode):
    assert decode_refusal(code, metadata) is None


@pytest.mark.parametrize("code", sorted(set(StatusCode) - set(CODES.values()), key=str), ids=lambda code: code.name)
def test_other_codes_are_no_refusal(code: StatusCode):
    assert decode_refusal(code, pack(OURS)) is None


@pytest.mark.parametrize(
    "details",
    [(OURS,), (DebugInfo(), OURS), (OURS, DebugInfo()), (FOREIGN, OURS), (OURS, FOREIGN)],
    ids=["alone", "behind another", "before another", "behind a proxy's", "before a proxy's"],
)
def test_foreign_details_beside_ours_are_ignored(details: tuple[Message, ...]):
    error = decode_refusal(StatusCode.INVALID_ARGUMENT, pack(*details))
    assert read(error) == (InvalidRequestError, "no", Reason.NOT_DIVISIBLE, "", {"index": "1"})
