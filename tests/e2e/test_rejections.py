"""Rejections as callers see them. `test_reasons` provokes each reason, and `wire/test_status` tests the details."""

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import Message

from plain_requests import catch_local, catch_remote, describe, send_raw
from tensor_reshape.client import Client, InvalidRequestError, Reason
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.arrays import Array

TYPES = {"f4": tensor_pb2.DATA_TYPE_F32, "i8": tensor_pb2.DATA_TYPE_I64}
SIX = np.arange(6, dtype="<f4").reshape(2, 3)
WORST = [2**62 - index for index in range(11)]


def make_tensor(array: Array) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data_type=TYPES[array.dtype.str[1:]], dims=array.shape, data=array.tobytes())


def ask_static(target: list[int], **fields: Any) -> tuple[Message, Callable[[Client], object]]:
    """Returns a rejected request and the same call of the SDK."""
    fields = {"special_zero": False, **fields}
    request = reshape_pb2.StaticReshapeRequest(
        shape=reshape_pb2.TargetShape(items=target), data=make_tensor(SIX), **fields
    )
    return request, lambda client: client.static_reshape(SIX, target, **fields)


def ask_reshape(target: Array) -> tuple[Message, Callable[[Client], object]]:
    request = reshape_pb2.ReshapeRequest(shape=make_tensor(target), special_zero=False, data=make_tensor(SIX))
    return request, lambda client: client.reshape(SIX, target, special_zero=False)


REJECTED = {
    Reason.SPECIAL_ZERO_MISSING: ask_static([6], special_zero=None),
    Reason.SHAPE_RANK_INVALID: ask_reshape(np.array([[6]], "i8")),
    Reason.RANK_LIMIT_EXCEEDED: ask_reshape(np.ones(65, "i8")),
    Reason.INVALID_TARGET_VALUE: ask_static([*WORST, -2]),  # with long metadata
    Reason.NOT_DIVISIBLE: ask_static([4, -1]),
}


def test_server_and_sdk_checks_raise_the_same_errors(client: Client, channel: grpc.Channel):
    def compare(request: Message, call: Callable[[Client], object]) -> str:
        local, method = catch_local(lambda: call(client)), request.DESCRIPTOR.name.removesuffix("Request")
        remote = catch_remote(lambda: send_raw(channel, method, request.SerializeToString()))
        assert describe(remote) == describe(local)
        return local.reason

    assert [compare(*asked) for asked in REJECTED.values()] == list(REJECTED)


def test_sdk_rejects_an_excessive_rank_before_sending(client: Client):
    error = catch_local(lambda: client.infer_shape([1] * 70_000, [1], special_zero=False))
    assert describe(error)[:3] == (InvalidRequestError, Reason.RANK_UNSUPPORTED, "data.dims")
    assert client.infer_shape([2], [2], special_zero=False) == (2,)
