"""The deadline, metadata, trace and request id of one call, and the information in its errors, for both clients."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

from both_clients import AnyClient, open_client
from in_process import Behavior, lose_once, run_stock
from tensor_reshape.client import Client, ReshapeError, ResponseError, ServiceError, ShapeQuery, TensorReshapeError
from tensor_reshape.client.contexts import (
    TRACE_KEY,
    CallOptions,
    ClientContext,
    Deadline,
    build_metadata,
    check_metadata,
    find_trace_reader,
)
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.batches import encode_batch_response
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.status import REQUEST_ID_KEY

SIX = np.arange(6, dtype=np.float32)
PAIRS = [("tenant", "a"), ("key-bin", b"\x00\xff")]
NAMED: dict[str, Any] = {"metadata": PAIRS, "request_id": "call-7"}
SENT = {*PAIRS, (REQUEST_ID_KEY, "call-7")}
ANSWER = ShapeAnswer((2, 3))
INFERRED = build_infer_response(ANSWER).SerializeToString()
BATCH = [ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)]

CALLS: dict[str, Callable[[AnyClient, Mapping[str, Any]], object]] = {
    "inline": lambda client, how: client.reshape(SIX, [2, 3], **how),
    "stream": lambda client, how: client.reshape(SIX, [2, 3], transfer="stream", **how),
    "view": lambda client, how: client.static_reshape(SIX, [2, 3], transfer="view", **how),
    "infer": lambda client, how: client.infer_shape([6], [2, 3], **how),
    "batch": lambda client, how: client.infer_shapes(BATCH, **how),
    "health": lambda client, how: client.check_health(**how),
}


class Recorder(grpc.ServerInterceptor):
    """Records the metadata of the client's calls."""

    def __init__(self) -> None:
        self.calls: list[set[tuple[str, str | bytes]]] = []

    def intercept_service(  # type: ignore[override] # the override accepts any arguments
        self, continuation: Callable[..., object], handler_call_details: grpc.HandlerCallDetails
    ) -> object:
        if not handler_call_details.method.endswith("/Watch"):  # gRPC's core starts this health watch by itself
            self.calls.append(set(cast("list[tuple[str, str | bytes]]", handler_call_details.invocation_metadata)))
        return continuation(handler_call_details)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def recorded(recorder: Recorder) -> Iterator[str]:
    """A server that implements only InferShape and batches, and records the metadata of all calls."""
    methods = {"InferShape": lambda *_: INFERRED, "BatchInferShape": lambda *_: encode_batch_response([ANSWER], 2**20)}
    with run_stock(methods, interceptors=[recorder]) as address:
        yield address


def test_calls_send_metadata_of_client_and_call(kind: str, recorder: Recorder, recorded: str):
    with open_client(kind, recorded, metadata=[("of", "all")]) as client:
        for name, call in CALLS.items():
            before = len(recorder.calls)
            with suppress(
                ServiceError
            ):  # the server implements few of the methods, but the test needs only the sent metadata
                call(client, NAMED)
            sent = recorder.calls[before:]
            assert sent, name
            assert all({("of", "all"), *SENT} <= each for each in sent), name
        CALLS["infer"](client, {})
        assert recorder.calls[-1] & SENT == set()


def test_all_retry_attempts_share_one_request_id(kind: str, recorder: Recorder):
    lossy = {"InferShape": lose_once(INFERRED, [])}
    with run_stock(lossy, interceptors=[recorder]) as address, open_client(kind, address) as client:
        assert CALLS["infer"](client, NAMED) == (2, 3)
    assert [sent >= SENT for sent in recorder.calls].count(True) == 2


def reject(request_id: str, _: bytes, context: grpc.ServicerContext) -> bytes:
    """Makes a call fail with this request id."""
    context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
    context.abort(grpc.StatusCode.INTERNAL, "no")


@pytest.mark.parametrize(
    ("behavior", "error", "kept"),
    [
        (partial(reject, "of-the-server"), ServiceError, "of-the-server"),
        (partial(reject, "a b"), ServiceError, "call-7"),
        (lambda *_: b"\xff", ResponseError, "call-7"),
    ],
    ids=["a valid id", "an invalid id", "an answer that cannot be read"],
)
def test_error_has_the_request_id_of_the_server_or_call(
    kind: str, behavior: Behavior, error: type[TensorReshapeError], kept: str
):
    with run_stock({"InferShape": behavior}) as address, open_client(kind, address) as client:
        with pytest.raises(error) as caught:
            CALLS["infer"](client, NAMED)
        assert caught.value.request_id == kept
        assert (caught.value.__cause__ is not None) == (error is ResponseError)


def test_error_raised_before_sending_has_no_request_id(kind: str):
    with open_client(kind, "127.0.0.1:1") as client, pytest.raises(ReshapeError) as caught:
        client.reshape(SIX, [4], **NAMED)
    assert caught.value.request_id is None


@pytest.mark.parametrize("request_id", ["", "a b", "a\nb", "a" * 129, "\u00e4"])
def test_invalid_request_id_argument_is_rejected(request_id: str):
    with pytest.raises(ValueError, match="request_id"):
        build_metadata(CallOptions(request_id=request_id))


def test_request_id_may_be_given_only_once():
    pair = (REQUEST_ID_KEY, "b")
    with pytest.raises(ValueError, match="remove one of them"):
        build_metadata(CallOptions(request_id="a", metadata=[pair]))
    error = TensorReshapeError()
    with pytest.raises(TensorReshapeError), ClientContext(Deadline(1), build_metadata({"metadata": [pair]})):
        raise error
    assert error.request_id == "b"


def test_unrelated_exception_gets_no_request_id():
    with pytest.raises(KeyError), ClientContext(Deadline(1), ((REQUEST_ID_KEY, "b"),)):
        raise KeyError


@pytest.mark.parametrize(
    "pair", [("Bad Key", "x"), ("", "x"), ("key", "a\nb"), ("key", b"x"), ("key-bin", "x"), ("key", "\u00e4")], ids=str
)
def test_invalid_client_metadata_are_rejected(pair: tuple[str, str | bytes]):
    with pytest.raises(ValueError, match="metadata"):
        check_metadata([pair])


@pytest.mark.parametrize(("metadata", "kind"), [({"tenant": "a"}, "dict"), ("tenant=a", "str"), (5, "int")], ids=str)
def test_metadata_type_error_suggests_key_value_pairs(metadata: object, kind: str):
    with pytest.raises(
        TypeError, match=rf"^metadata is of the type {kind}: write pairs, such as \[\('key', 'value'\)\]$"
    ):  # the message does not show them
        check_metadata(metadata)  # type: ignore[arg-type] # wrong on purpose


def test_valid_client_metadata_are_accepted():
    pairs = (("x-key", "value, with more"), ("trace-bin", b"\x00\xff"))
    assert check_metadata(pairs) == check_metadata(iter(pairs)) == pairs  # type: ignore[arg-type] # an iterator


def test_call_without_a_timeout_has_no_deadline():
    deadline = Deadline(None)
    assert (deadline.remaining_seconds, deadline.is_within(1e9)) == (None, False)


def test_deadline_is_within_compares_with_the_remaining_seconds():
    deadline = Deadline(100.0)
    assert deadline.remaining_seconds == pytest.approx(100, abs=0.5)
    assert [deadline.is_within(seconds) for seconds in (1.0, 99.0, 100.0)] == [False, False, True]


def test_expired_deadline_leaves_the_minimum_timeout():
    deadline = Deadline(1e-9)
    assert (deadline.remaining_seconds, deadline.is_within(0)) == (1e-3, True)


TRACER = TracerProvider().get_tracer("test")


def test_traceparent_metadata_has_the_ids_of_the_current_span():
    assert find_trace_reader()() == ()
    with TRACER.start_as_current_span("mine") as span:
        context = span.get_span_context()
        ((key, value),) = find_trace_reader()()
    version, trace, parent, _ = str(value).split("-")
    expected = (TRACE_KEY, "00", format_trace_id(context.trace_id), format_span_id(context.span_id))
    assert (key, version, trace, parent) == expected


def test_missing_opentelemetry_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    with pytest.raises(ImportError, match=r'pip install "tensor-reshape\[tracing\]"'):
        Client(tracing=True)
