"""Results that callers get for responses, and errors for invalid responses."""

import numpy as np
import pytest

from in_process import run_stock
from plain_requests import encode_reshape_response
from tensor_reshape.client import Client, InvalidRequestError, ResponseError, TensorReshapeError
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
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
