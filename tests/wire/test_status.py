"""Errors round-trip through google.rpc.Status details. Request ids are valid or ignored."""

from urllib.parse import quote

import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, DebugInfo, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as StatusMessage
from hypothesis import given
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
from tensor_reshape.wire.status import (
    DETAILS_KEY,
    DOMAIN,
    REQUEST_ID_KEY,
    RETRY_SECONDS,
    Status,
    decode_brief_rejection,
    decode_rejection,
    encode_brief_rejection,
    encode_rejection,
    find_request_id,
    is_request_id,
)

CODES = {
    InvalidRequestError: "INVALID_ARGUMENT",
    NotFoundError: "NOT_FOUND",
    UnauthenticatedError: "UNAUTHENTICATED",
    PermissionDeniedError: "PERMISSION_DENIED",
    LimitError: "RESOURCE_EXHAUSTED",
}
SMALL = "small enough to travel whole"


def read(error: ReshapeError | None) -> tuple[object, ...] | None:
    return None if error is None else (type(error), error.message, error.reason, error.field, error.metadata)


def read_details(status: Status) -> StatusMessage:
    packed = dict(status.trailing_metadata)[DETAILS_KEY]
    assert isinstance(packed, bytes)
    return StatusMessage.FromString(packed)


def travel(error: ReshapeError) -> ReshapeError | None:
    status = encode_rejection(error)
    return decode_rejection(status.code, status.trailing_metadata)


def reject(reason: Reason) -> ReshapeError:
    kind = next(kind for kind in (ReshapeError, *CODES) if kind.code_name == reason.code_name)
    return kind.of(reason, SMALL, "shape[1]", index=1, value=-2, shape=(1, -2))


def test_error_encoded_in_status_details_is_decoded_unchanged():
    rejections = [reject(reason) for reason in Reason if reason is not Reason.INTERNAL_ERROR]
    for error in (*rejections, LimitError(SMALL, reason=Reason.HEADER_TOO_LARGE)):
        assert read(travel(error)) == read(error)
        assert encode_rejection(error).code == CODES[type(error)]
    # A bug has no rejection, except as the result of one item of a batch.
    assert encode_rejection(ReshapeError(SMALL, reason=Reason.INTERNAL_ERROR)).code == "INTERNAL"


def test_unknown_error_reason_has_the_status_code_of_its_class():
    class OddTargetError(InvalidRequestError):
        pass

    assert {kind: encode_rejection(kind(SMALL, reason="SOMETHING_NEW")).code for kind in CODES} == CODES
    for reason in ("NOT_DIVISIBLE", "SOMETHING_NEW"):
        assert encode_rejection(OddTargetError(SMALL, reason=reason)).code == "INVALID_ARGUMENT"
    error = travel(InvalidRequestError(SMALL, reason="SOMETHING_NEW"))
    assert error is not None
    assert (type(error.reason), error.reason) == (str, "SOMETHING_NEW")


def test_error_status_details_are_google_rpc_messages():
    status = encode_rejection(InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", index=1))
    message = read_details(status)
    info, request = ErrorInfo(), BadRequest()
    assert message.details[0].Unpack(info)
    assert message.details[1].Unpack(request)
    assert (status.details, message.code, message.message, len(message.details)) == ("no", 3, "no", 2)
    assert info == ErrorInfo(reason="NOT_DIVISIBLE", domain="tensor_reshape.v1", metadata={"index": "1"})
    assert request.field_violations == [BadRequest.FieldViolation(field="shape[1]", description="no")]
    without_field = encode_rejection(LimitError("no", reason=Reason.HEADER_TOO_LARGE))
    assert len(read_details(without_field).details) == 1


def test_texts_of_an_error_status_are_cut_at_their_limits():
    for extra in (0, 1):
        ends = "..." if extra else "aaa"
        error = LimitError("a" * (768 + extra), reason=Reason.SERVER_BUSY, field="a" * (128 + extra))
        status, brief = (
            encode_rejection(error),
            encode_brief_rejection(LimitError("a" * (755 + extra), reason="X" * 11)),
        )
        twin = decode_rejection(status.code, status.trailing_metadata)
        assert read(twin) == (LimitError, f"{'a' * 765}{ends}", Reason.SERVER_BUSY, f"{'a' * 125}{ends}", {})
        assert (status.details, brief.details) == (f"{'a' * 765}{ends}", f"{'X' * 11}: {'a' * 752}{ends}")


def test_first_detail_of_each_kind_applies():
    violations = [BadRequest.FieldViolation(field=field) for field in ("first", "second")]
    delays = [RetryInfo(retry_delay=Duration(seconds=seconds)) for seconds in (3, 4)]
    infos = [ErrorInfo(reason="SERVER_BUSY", domain=DOMAIN, metadata={"size": size}) for size in "12"]
    trap = DebugInfo(detail=DOMAIN)  # an ErrorInfo of this service, if its type were ignored
    details = pack(trap, BadRequest(field_violations=violations), *delays, *infos)
    error = decode_rejection("RESOURCE_EXHAUSTED", details)
    assert (read(error), find_retry_seconds(error)) == ((LimitError, "no", "SERVER_BUSY", "first", {"size": "1"}), 3.0)


def find_pushback(rejection: ReshapeError) -> str | bytes | None:
    return dict(encode_rejection(rejection).trailing_metadata).get("grpc-retry-pushback-ms")


def find_retry_seconds(error: ReshapeError | None) -> float | None:
    assert isinstance(error, LimitError)
    return error.retry_seconds


def test_only_retryable_error_reasons_have_a_retry_delay():
    passing = {Reason.SERVER_BUSY, Reason.QUOTA_EXCEEDED}
    permanent = {reason for reason in Reason if reason.code_name == "RESOURCE_EXHAUSTED"} - passing
    assert {reason: find_pushback(reject(reason)) for reason in Reason} == {
        reason: "200" if reason in passing else "-1" if reason in permanent else None for reason in Reason
    }
    assert find_pushback(InvalidRequestError(SMALL, reason=Reason.SERVER_BUSY)) == "200"
    assert find_retry_seconds(travel(LimitError.of(Reason.SERVER_BUSY, "no"))) == 0.2
    assert find_retry_seconds(travel(LimitError.of(Reason.TENSOR_TOO_LARGE, "no"))) is None
    for seconds, milliseconds in [(0.0, 0), (0.0001, 1), (2.5, 2500), (1e9, 2**31 - 1)]:
        rejection = LimitError.of(Reason.QUOTA_EXCEEDED, "no")
        rejection.retry_seconds = seconds
        assert find_pushback(rejection) == str(milliseconds)
        assert find_retry_seconds(travel(rejection)) == milliseconds / 1000


def test_brief_error_status_has_no_details_but_its_reason():
    for reason in Reason:
        if reason is Reason.INTERNAL_ERROR:
            continue
        status = encode_brief_rejection(reject(reason))
        error = decode_brief_rejection(status.code, status.details)
        assert (status.details, status.trailing_metadata) == (f"{reason}: {SMALL}", ())
        assert read(error) == (type(reject(reason)), SMALL, reason, "", {})
        assert getattr(error, "retry_seconds", None) == (RETRY_SECONDS if reason.is_retryable else None)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("RESOURCE_EXHAUSTED", "received metadata size exceeds hard limit"),
        ("RESOURCE_EXHAUSTED", "STALLED"),
        ("RESOURCE_EXHAUSTED", "SOMETHING_NEW: no"),
        ("UNAVAILABLE", "STALLED: no"),
        ("RESOURCE_EXHAUSTED", "NOT_DIVISIBLE: no"),
    ],
)
def test_text_without_a_reason_of_its_code_is_no_error(code: str, text: str):
    assert decode_brief_rejection(code, text) is None


def test_negative_retry_delay_becomes_zero():
    times = {(0, 0): 0, (3, 500_000_000): 3.5, (0, 1): 1e-9, (-5, 0): 0, (0, -5): 0, (2**40, 0): 1e9}
    for (seconds, nanos), expected in times.items():
        delay = RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos))
        details = pack(ErrorInfo(reason="SERVER_BUSY", domain=DOMAIN), delay)
        assert find_retry_seconds(decode_rejection("RESOURCE_EXHAUSTED", details)) == expected


HOSTILE = {
    "plain": "x" * 100_000,
    "of four bytes": "\U0001f600" * 100_000,
    "control characters": "\r\n\x00\x1b" * 25_000,
    "per cent": "%" * 100_000,
    "a lone surrogate": "\ud800" * 100_000,
}


def measure(error: ReshapeError) -> int:
    """Returns the percent-encoded status text in the trailers."""
    status = encode_rejection(error)
    printable = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
    return len(quote(status.details, safe=printable)) + len(dict(status.trailing_metadata)[DETAILS_KEY])


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_encoded_error_status_is_below_7_kib_of_ascii(text: str):
    for reason in (max(Reason, key=len), Reason.SERVER_BUSY):
        metadata = {f"the_key_number_{at}": text for at in range(1000)}
        error = type(reject(reason))(text, reason=reason, field=text, metadata=metadata)
        assert measure(error) < 7 * 1024
        assert encode_rejection(error).details.isascii()


@given(st.text(), st.text(), st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.text()))
def test_error_truncated_to_fit_status_details_is_decodable(message: str, field: str, metadata: dict[str, str]):
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

# The end of a call that is not a rejection of this service.
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


def test_status_details_of_other_services_are_not_decoded():
    for name, metadata in NOT_OURS.items():
        assert [decode_rejection(code, metadata) for code in CODES.values()] == [None] * len(CODES), name
    others = set(Code.keys()) - set(CODES.values())
    assert [decode_rejection(code, pack(OURS)) for code in others] == [None] * len(others)


def test_additional_status_details_of_other_services_are_ignored():
    for details in ([OURS], [DebugInfo(), OURS], [OURS, DebugInfo()], [FOREIGN, OURS], [OURS, FOREIGN]):
        error = decode_rejection("INVALID_ARGUMENT", pack(*details))
        assert read(error) == (InvalidRequestError, "no", Reason.NOT_DIVISIBLE, "", {"index": "1"})


LONGEST = "~" * 128


def test_request_id_must_be_visible_ascii():
    named = ["a", "0af7651916cd43dd8448eb211c80319c", "req/7:b=1", LONGEST]
    assert [text for text in named if not is_request_id(text)] == []
    others: list[object] = ["", " ", "a b", "a\n", "\x1b[2J", "\u00e4", LONGEST + "~", b"a", None, 7]
    assert [value for value in others if is_request_id(value)] == []


def test_request_id_is_found_in_metadata():
    assert find_request_id((("other", "x"), (REQUEST_ID_KEY, "a-1"))) == "a-1"
    for metadata in ((), (("other", "x"),), ((REQUEST_ID_KEY, "a b"),)):
        assert find_request_id(metadata) is None
