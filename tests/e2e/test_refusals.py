"""Refusals are the same whether this process or the server found them; `test_reasons` provokes all reasons."""

from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from remote_refusals import catch_local, catch_remote, catch_status, describe, read_trailing, send_raw
from tensor_reshape.client import Client, InvalidRequestError, Reason
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.arrays import Array

F32 = tensor_pb2.DATA_TYPE_F32
TYPES = {"f4": F32, "i8": tensor_pb2.DATA_TYPE_I64, "i4": tensor_pb2.DATA_TYPE_I32, "u8": tensor_pb2.DATA_TYPE_U64}
SIX = np.arange(6, dtype="<f4").reshape(2, 3)
BIG = 2**62
WORST = [BIG - index for index in range(12)]


def make_tensor(array: Array) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data_type=TYPES[array.dtype.str[1:]], dims=array.shape, data=array.tobytes())


def make_shape(*dims: int | None) -> tensor_pb2.Shape:
    return tensor_pb2.Shape(dims=[tensor_pb2.Dim() if dim is None else tensor_pb2.Dim(value=dim) for dim in dims])


def make_static(array: Array, target: list[int], **fields: Any) -> Message:
    fields = {"special_zero": False, **fields}
    return reshape_pb2.StaticReshapeRequest(shape=target, data=make_tensor(array), **fields)


def make_reshape(array: Array, target: Array) -> Message:
    return reshape_pb2.ReshapeRequest(shape=make_tensor(target), special_zero=False, data=make_tensor(array))


def make_infer(*dims: int, **fields: Any) -> Message:
    data = tensor_pb2.TensorSpec(shape=make_shape(*dims))
    known = {"operation": reshape_pb2.OPERATION_RESHAPE, "data": data, "shape": make_shape(-1)}
    return reshape_pb2.InferShapeRequest(**{**known, "special_zero": False, **fields})


def send(channel: grpc.Channel, request: Message) -> bytes:
    return send_raw(channel, request.DESCRIPTOR.name.removesuffix("Request"), request.SerializeToString())


def ask_static(array: Array, target: list[int], **fields: Any) -> tuple[Message, Callable[[Client], object]]:
    """Returns a refused request and the same call of the SDK."""
    sent = {**fields, "expected_shape": make_shape(*fields["expected_shape"])} if "expected_shape" in fields else fields
    fields = {"special_zero": False, **fields}
    return make_static(array, target, **sent), lambda client: client.static_reshape(array, target, **fields)


def ask_reshape(array: Array, target: Array) -> tuple[Message, Callable[[Client], object]]:
    return make_reshape(array, target), lambda client: client.reshape(array, target, special_zero=False)


REFUSED = {
    Reason.DATA_TYPE_UNSUPPORTED: ask_static(np.arange(6), [6]),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: ask_reshape(SIX, np.array([6], "f4")),
    Reason.SHAPE_RANK_INVALID: ask_reshape(SIX, np.array([[6]], "i8")),
    Reason.SPECIAL_ZERO_MISSING: ask_static(SIX, [6], special_zero=None),
    Reason.RANK_UNSUPPORTED: ask_static(SIX, [1] * 13),
    Reason.RANK_LIMIT_EXCEEDED: ask_reshape(SIX, np.ones(65, "i8")),
    Reason.INVALID_TARGET_VALUE: ask_static(SIX, [*WORST[:11], -2]),  # its metadata are long
    Reason.ZERO_INDEX_OUT_OF_RANGE: ask_static(SIX, [2, 3, 0], special_zero=True),
    Reason.MULTIPLE_MINUS_ONE: ask_static(SIX, [-1, 2, -1]),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: ask_reshape(np.empty((0, 3), "<f4"), np.array([0, -1])),
    Reason.NOT_DIVISIBLE: ask_static(SIX, [4, -1]),
    Reason.VOLUME_MISMATCH: ask_static(SIX, [BIG] * 3),
    Reason.EXPECTED_SHAPE_MISMATCH: ask_static(SIX, [6], expected_shape=[None, None]),
}


def test_the_server_and_the_sdk_refuse_alike(client: Client, channel: grpc.Channel):
    def compare(request: Message, call: Callable[[Client], object]) -> str:
        local = catch_local(lambda: call(client))
        assert describe(catch_remote(lambda: send(channel, request))) == describe(local)
        return local.reason

    assert [compare(*asked) for asked in REFUSED.values()] == list(REFUSED)


def test_an_excessive_rank_is_refused_before_it_is_sent(client: Client):
    error = catch_local(lambda: client.infer_shape([1] * 70_000, [1], special_zero=False))
    assert describe(error)[:3] == (InvalidRequestError, Reason.RANK_UNSUPPORTED, "data.dims")
    assert client.infer_shape([2], [2], special_zero=False) == (2,)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (make_static(SIX, [3, -2]), grpc.StatusCode.INVALID_ARGUMENT),
        (make_reshape(SIX, np.ones(65, "i8")), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
    ids=["invalid", "limit"],
)
def test_the_status_details_are_those_of_the_contract(channel: grpc.Channel, request_: Message, code: grpc.StatusCode):
    status = catch_status(lambda: send(channel, request_))
    raw = read_trailing(status)["grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    packed, info, bad = Status.FromString(raw), ErrorInfo(), BadRequest()
    assert [packed.details[0].Unpack(info), packed.details[1].Unpack(bad)] == [True, True]
    assert (status.code(), packed.code, packed.message) == (code, code.value[0], status.details())
    assert (info.domain, bad.field_violations[0].description) == ("tensor_reshape.v1", status.details())


def test_the_largest_refusals_keep_their_code_and_stay_small(channel: grpc.Channel):
    huge = {"shape": make_shape(*[BIG - 1] * 64), "expected_shape": make_shape(*[BIG] * 64)}
    for request in (
        make_static(SIX, WORST, expected_shape=make_shape(*WORST)),
        make_static(SIX, [*WORST[:11], -2], expected_shape=make_shape(*WORST)),
        make_infer(*[BIG] * 64, **huge),
    ):
        status = catch_status(partial(send, channel, request))
        trailing = sum(len(key) + len(value) for key, value in read_trailing(status).items())
        assert status.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert trailing + len(status.details() or "") < 7 * 1024
