"""Checks before anything is sent, results that callers get for responses, and errors for invalid responses."""

from typing import Any

import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from in_process import run_stock
from plain_requests import encode_reshape_response
from tensor_reshape.client import (
    Client,
    InvalidRequestError,
    Reason,
    ReshapeError,
    ResponseError,
    ShapeQuery,
    TensorReshapeError,
    infer_shape_locally,
)
from tensor_reshape.client.requests import (
    Arguments,
    Plan,
    Target,
    build_infer_shapes,
    plan_reshape,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.batches import decode_batch_request
from tensor_reshape.wire.tensors import TensorView

NOBODY = "127.0.0.1:1"  # nothing listens here, so a sent request would end with another error
SIX = np.arange(6, dtype=np.float32)
OF_RESHAPES = {
    "expected_shpae": "expected_shape",
    "timout": "timeout",
    "transfr": "transfer",
    "request_ids": "request_id",
    "xyzzy": None,
}
OF_QUESTIONS = {
    "operatoin": "operation",
    "time_out": "timeout",
    "request_ids": "request_id",
    "xyzzy": None,
}
# The arguments of each method, and the keyword that is suggested for a wrong one.
KEYWORDS: dict[str, tuple[tuple[object, ...], dict[str, str | None]]] = {
    **dict.fromkeys(OPERATIONS, ((SIX, [6]), OF_RESHAPES)),
    "infer_shape": (([6], [6]), OF_QUESTIONS),
    "infer_shapes": (([],), {"request_ids": "request_id"}),
    "check_health": ((), {"request_ids": "request_id"}),
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_unknown_keyword_argument_error_suggests_the_nearest_name(kind: str):
    rows = [(method, *row) for method, (_, names) in KEYWORDS.items() for row in names.items()]
    with open_client(kind, NOBODY) as client:
        for method, wrong, right in rows:
            hint = "" if right is None else rf"\. Did you mean '{right}'\?"
            with pytest.raises(TypeError, match=rf"^{method}\(\) got an unexpected keyword argument '{wrong}'{hint}$"):
                getattr(client, method)(*KEYWORDS[method][0], **{wrong: None})
        with pytest.raises(TypeError, match="data_from"):  # only queries of a batch have it
            client.infer_shape([6], [6], data_from=0)


def test_local_inference_accepts_no_options_of_calls_and_batches():
    for wrong, hint in (("operatoin", r"\. Did you mean 'operation'\?"), ("timeout", ""), ("data_from", ".*")):
        infer: Any = infer_shape_locally
        text = rf"^infer_shape_locally\(\) got an unexpected keyword argument '{wrong}'{hint}$"
        with pytest.raises(TypeError, match=text):
            infer([6], [6], special_zero=False, **{wrong: None})


def plan(operation: Operation = STATIC_RESHAPE, array: Array = SIX, shape: Target = (3, 2)) -> Plan:
    return plan_reshape(Arguments(operation, array, shape, special_zero=False, expected_shape=None))


@pytest.mark.parametrize("item", [2**31, -(2**31) - 1])
def test_dynamic_reshape_call_rejects_items_above_i32(item: int):
    with pytest.raises(InvalidRequestError, match="does not fit into") as caught:
        plan(DYNAMIC_RESHAPE, shape=[item])
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_TARGET_VALUE, "shape")


def test_target_array_keeps_its_dtype_and_lists_use_the_widest():
    views = (
        plan().shape,
        plan(DYNAMIC_RESHAPE).shape,
        plan(RESHAPE).shape,
        plan(RESHAPE, shape=np.array([3, 2], np.uint8)).shape,
    )
    types = [view and view.data_type for view in views]
    assert types == [None, DataType.I32, DataType.I64, DataType.U8]  # StaticReshape has no tensor for the shape


def test_batch_returns_an_error_in_place_of_an_unencodable_query():
    queries = [
        ShapeQuery(data_shape=[6], shape=["6"], special_zero=False),
        ShapeQuery(data_shape=[6], shape=["1.5"], special_zero=False),
        ShapeQuery(data_from=2**40, shape=[6], special_zero=False),  # a message cannot contain it
    ]
    call = build_infer_shapes(queries)
    assert [len(item) > 0 for item in decode_batch_request(call.request)] == [True, False, False]
    answer = reshape_pb2.BatchInferShapeResult(answer=reshape_pb2.InferShapeResponse())
    response = reshape_pb2.BatchInferShapeResponse(results=[answer] * 3).SerializeToString()
    answered, *rejected = call.decode(response)
    assert not isinstance(answered, ReshapeError)
    assert [isinstance(error, ReshapeError) and (error.reason, error.field, error.metadata) for error in rejected] == [
        (Reason.DIM_SYNTAX_INVALID, "shape[0]", {"index": "0", "value": "1.5"}),
        (Reason.BATCH_REFERENCE_INVALID, "data_from", {"value": str(2**40)}),
    ]
    response = reshape_pb2.BatchInferShapeResponse(results=[answer] * 4).SerializeToString()
    with pytest.raises(ResponseError, match="returned 4 results for 3 queries"):
        call.decode(response)


ANSWERS = {
    "other dims": encode_reshape_response(TensorView(DataType.F32, (3, 2), None, memoryview(SIX.tobytes()))),
    "another data type": encode_reshape_response(TensorView(DataType.I32, (6,), None, memoryview(SIX.tobytes()))),
    "too few bytes": encode_reshape_response(TensorView(DataType.F32, (6,), None, memoryview(bytes(23)))),
    "a negative dim": bytes.fromhex("7a10 080e 120a ffffffffffffffffff01 7a00"),
    "a volume of 18000 digits": encode_reshape_response(
        TensorView(DataType.F32, (2**62,) * 1000, None, memoryview(b""))
    ),
    "nothing": b"",
    "garbage": b"\xff\xff",
}
SHAPES = {
    "garbage": b"\xff",
    "a kind of dim to come": b"\x0a\x09\x0a\x01\x01\x12\x04\x08\x00\x7a\x00",
    "no UTF-8": b"\x12\x03\x2a\x01\xff",
}


def test_server_output_that_breaks_the_rules_raises_response_error():
    answers, shapes = iter(ANSWERS.values()), iter(SHAPES.values())
    methods = {"StaticReshape": lambda *_: next(answers), "InferShape": lambda *_: next(shapes)}
    with run_stock(methods) as address, Client(address) as client:
        for name in ANSWERS:
            with pytest.raises(ResponseError) as caught:
                client.static_reshape(SIX, [6], special_zero=False)
            assert not isinstance(caught.value, InvalidRequestError), name
        for _ in SHAPES:
            with pytest.raises(ResponseError):
                client.infer_shape([6], [6], special_zero=False)
    assert [*answers, *shapes] == []


def test_unreadable_health_response_raises_response_error():
    with (
        run_stock({"Check": lambda *_: b"\xff"}, service="grpc.health.v1.Health") as address,
        Client(address) as client,
        pytest.raises(TensorReshapeError),
    ):
        client.check_health()
