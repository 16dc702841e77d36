"""Refusals: the same class, reason, field and metadata whether this process or the server found them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from remote_refusals import catch_local, catch_remote, catch_status, describe, read_trailing, send_raw
from tensor_reshape.client import Client, InvalidRequestError, LimitError, Reason
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

F32 = tensor_pb2.DATA_TYPE_F32
SIX = np.arange(6, dtype="<f4").reshape(2, 3)
EMPTY = np.empty((0, 3), "<f4")
BIG = 2**62
WORST = [BIG - index for index in range(12)]
LATER_DIM = tensor_pb2.Dim.FromString(b"\x2a\x02\x08\x01")  # of a kind that a later contract may have: field 5
LATER_SHAPE = tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=1), LATER_DIM])


def make_tensor(array: np.ndarray[Any, Any]) -> tensor_pb2.Tensor:
    types = {"f4": F32, "i8": tensor_pb2.DATA_TYPE_I64, "i4": tensor_pb2.DATA_TYPE_I32, "u8": tensor_pb2.DATA_TYPE_U64}
    return tensor_pb2.Tensor(
        data_type=types[array.dtype.str[1:]], dims=array.shape, data=np.ascontiguousarray(array).tobytes()
    )


def make_static(array: np.ndarray[Any, Any], target: list[int], *, special_zero: bool | None = False, **more: Any):
    return reshape_pb2.StaticReshapeRequest(shape=target, special_zero=special_zero, data=make_tensor(array), **more)


def make_dynamic(array: np.ndarray[Any, Any], target: np.ndarray[Any, Any]):
    return reshape_pb2.DynamicReshapeRequest(shape=make_tensor(target), special_zero=False, data=make_tensor(array))


def make_reshape(array: np.ndarray[Any, Any], target: np.ndarray[Any, Any]):
    return reshape_pb2.ReshapeRequest(shape=make_tensor(target), special_zero=False, data=make_tensor(array))


def make_shape(*dims: int | None) -> tensor_pb2.Shape:
    return tensor_pb2.Shape(dims=[tensor_pb2.Dim() if dim is None else tensor_pb2.Dim(value=dim) for dim in dims])


def make_spec(*dims: int, data_type: int = 0) -> tensor_pb2.TensorSpec:
    kind = tensor_pb2.DataType.ValueType(data_type)
    return tensor_pb2.TensorSpec(data_type=kind, shape=make_shape(*dims))


def as_bytes(value: str | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def measure(status: grpc.RpcError) -> int:
    trailing = sum(len(key) + len(value) for key, value in read_trailing(status).items())
    return trailing + len(status.details() or "")


class Case(NamedTuple):
    """One refusal, asked for in both places."""

    reason: Reason
    request: Message
    local: Callable[[Client], object]


def refuse_static(reason: Reason, array: np.ndarray[Any, Any], target: list[int], **policy: bool | None) -> Case:
    attributes: dict[str, Any] = {"special_zero": False, **policy}
    request = make_static(array, target, **attributes)
    return Case(reason, request, lambda client: client.static_reshape(array, target, **attributes))


def refuse_dynamic(reason: Reason, array: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Case:
    request = make_dynamic(array, target)
    return Case(reason, request, lambda client: client.dynamic_reshape(array, target, special_zero=False))


def refuse_reshape(reason: Reason, array: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Case:
    request = make_reshape(array, target)
    return Case(reason, request, lambda client: client.reshape(array, target, special_zero=False))


CASES = [
    refuse_static(Reason.DATA_TYPE_UNSUPPORTED, np.arange(6), [6]),
    refuse_dynamic(Reason.DATA_TYPE_UNSUPPORTED, np.arange(6), np.array([6], "i4")),
    refuse_dynamic(Reason.SHAPE_DATA_TYPE_UNSUPPORTED, SIX, np.array([6], "i8")),
    refuse_reshape(Reason.SHAPE_DATA_TYPE_UNSUPPORTED, SIX, np.array([6], "f4")),
    refuse_dynamic(Reason.SHAPE_RANK_INVALID, SIX, np.array(6, "i4")),
    refuse_reshape(Reason.SHAPE_RANK_INVALID, SIX, np.array([[6]], "i8")),
    refuse_static(Reason.SPECIAL_ZERO_MISSING, SIX, [6], special_zero=None),
    refuse_static(Reason.RANK_UNSUPPORTED, SIX, [1] * 13),
    refuse_static(Reason.RANK_UNSUPPORTED, SIX.reshape([1] * 12 + [6]), [6]),
    refuse_dynamic(Reason.RANK_UNSUPPORTED, SIX, np.ones(13, "i4")),
    refuse_reshape(Reason.RANK_LIMIT_EXCEEDED, SIX, np.ones(65, "i8")),
    refuse_static(Reason.INVALID_TARGET_VALUE, SIX, [3, -2]),
    refuse_dynamic(Reason.INVALID_TARGET_VALUE, SIX, np.array([-(2**31)], "i4")),
    refuse_reshape(Reason.INVALID_TARGET_VALUE, SIX, np.array([2**63], "u8")),
    refuse_static(Reason.ZERO_INDEX_OUT_OF_RANGE, SIX, [2, 3, 0], special_zero=True),
    refuse_static(Reason.MULTIPLE_MINUS_ONE, SIX, [-1, 2, -1]),
    refuse_static(Reason.MINUS_ONE_WITH_ZERO_VOLUME, EMPTY, [0, -1]),
    refuse_reshape(Reason.MINUS_ONE_WITH_ZERO_VOLUME, EMPTY, np.array([0, -1])),
    refuse_static(Reason.NOT_DIVISIBLE, SIX, [4, -1]),
    refuse_static(Reason.VOLUME_MISMATCH, SIX, [7]),
    refuse_static(Reason.VOLUME_MISMATCH, SIX, []),
    refuse_static(Reason.VOLUME_MISMATCH, SIX, [BIG] * 3),
    Case(
        Reason.EXPECTED_SHAPE_MISMATCH,
        make_static(SIX, [6], expected_shape=make_shape(5)),
        lambda client: client.static_reshape(SIX, [6], special_zero=False, expected_shape=[5]),
    ),
    Case(
        Reason.EXPECTED_SHAPE_MISMATCH,
        make_static(SIX, [6], expected_shape=make_shape(None, None)),
        lambda client: client.static_reshape(SIX, [6], special_zero=False, expected_shape=[None, None]),
    ),
]


def get_method(request: Message) -> str:
    return request.DESCRIPTOR.name.removesuffix("Request")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{get_method(case.request)}-{case.reason}")
def test_the_server_refuses_exactly_as_the_sdk_does(client: Client, channel: grpc.Channel, case: Case):
    local = catch_local(lambda: case.local(client))
    remote = catch_remote(lambda: send_raw(channel, get_method(case.request), case.request.SerializeToString()))
    assert describe(remote) == describe(local)
    assert local.reason == case.reason


def test_the_metadata_of_long_values_are_the_same_on_both_sides(client: Client, channel: grpc.Channel):
    local = catch_local(lambda: client.static_reshape(SIX, [*WORST[:11], -2], special_zero=False))
    request = make_static(SIX, [*WORST[:11], -2])
    remote = catch_remote(lambda: send_raw(channel, "StaticReshape", request.SerializeToString()))
    assert describe(remote) == describe(local)


def make_strided(dims: list[int], strides: list[int], data: bytes) -> Message:
    tensor = tensor_pb2.Tensor(data_type=F32, dims=dims, strides=strides, data=data)
    return reshape_pb2.StaticReshapeRequest(shape=[-1], special_zero=False, data=tensor)


def make_infer(**fields: Any) -> Message:
    known = {"operation": reshape_pb2.OPERATION_RESHAPE, "data": make_spec(6), "shape": make_shape(-1)}
    return reshape_pb2.InferShapeRequest(**{**known, "special_zero": False, **fields})


FOREIGN_CASES = [
    (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type", make_static(SIX, [6]), {"data_type": 0}),
    (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type", make_static(SIX, [6]), {"data_type": 16}),
    (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type", make_static(SIX, [6]), {"data_type": -1}),
    (Reason.DIM_OUT_OF_RANGE, "data.dims[1]", make_static(SIX, [6]), {"dims": [2, -3]}),
    (Reason.DATA_SIZE_MISMATCH, "data.data", make_static(SIX, [6]), {"data": bytes(23)}),
    (Reason.DATA_SIZE_MISMATCH, "data.data", make_static(SIX, [6]), {"data": bytes(25)}),
    (Reason.DATA_SIZE_MISMATCH, "data.data", make_static(SIX, [6]), {"data": b""}),
]


@pytest.mark.parametrize(("reason", "field", "request_", "changes"), FOREIGN_CASES)
def test_a_tensor_that_no_sdk_would_send_is_refused(
    channel: grpc.Channel,
    reason: Reason,
    field: str,
    request_: reshape_pb2.StaticReshapeRequest,
    changes: dict[str, Any],
):
    request = reshape_pb2.StaticReshapeRequest()
    request.CopyFrom(request_)
    for name in changes:
        request.data.ClearField(name)  # type: ignore[arg-type] # a name of the table above
    request.data.MergeFrom(tensor_pb2.Tensor(**changes))
    error = catch_remote(lambda: send_raw(channel, "StaticReshape", request.SerializeToString()))
    assert describe(error)[:3] == (InvalidRequestError, reason, field)


@pytest.mark.parametrize(
    ("reason", "field", "request_"),
    [
        (Reason.STRIDES_RANK_MISMATCH, "data.strides", make_strided([2, 3], [1], bytes(24))),
        (Reason.STRIDES_RANK_MISMATCH, "data.strides", make_strided([], [1], bytes(4))),
        (Reason.STRIDE_NEGATIVE, "data.strides[1]", make_strided([2, 3], [3, -1], bytes(24))),
        (Reason.STRIDES_OVERLAP, "data.strides", make_strided([2, 3], [1, 1], bytes(16))),
        (Reason.DATA_SIZE_MISMATCH, "data.data", make_strided([2, 3], [4, 1], bytes(24))),
        (Reason.DATA_SIZE_MISMATCH, "data.data", make_strided([2], [2**63 - 1], bytes(8))),
        (Reason.DATA_SIZE_MISMATCH, "data.data", make_strided([2, 2], [2**62, 2**62], bytes(4))),
        (Reason.FIELD_MISSING, "data", reshape_pb2.StaticReshapeRequest(shape=[1], special_zero=False)),
        (Reason.FIELD_MISSING, "shape", reshape_pb2.ReshapeRequest(special_zero=False, data=make_tensor(SIX))),
        (Reason.FIELD_MISSING, "data", make_infer(data=None)),
        (Reason.OPERATION_UNSPECIFIED, "operation", make_infer(operation=None)),
        (Reason.OPERATION_UNSPECIFIED, "operation", make_infer(operation=9)),
        (Reason.DIM_UNKNOWN, "data.dims[1]", make_infer(data=tensor_pb2.TensorSpec(shape=LATER_SHAPE))),
        (Reason.DIM_UNKNOWN, "shape[1]", make_infer(shape=LATER_SHAPE)),
        (Reason.DIM_UNKNOWN, "expected_shape.dims[1]", make_infer(expected_shape=LATER_SHAPE)),
        (Reason.DIM_OUT_OF_RANGE, "data.dims[0]", make_infer(data=make_spec(-1))),
        (Reason.DIM_OVERFLOW, "shape[0]", make_infer(data=make_spec(BIG, BIG))),
        (Reason.SPECIAL_ZERO_MISSING, "special_zero", make_infer(special_zero=None)),
        (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type", make_infer(data=make_spec(6, data_type=99))),
    ],
    ids=lambda value: str(value) if isinstance(value, Reason) else "",
)
def test_a_request_that_no_sdk_would_send_is_refused(
    channel: grpc.Channel, reason: Reason, field: str, request_: Message
):
    error = catch_remote(lambda: send_raw(channel, get_method(request_), request_.SerializeToString()))
    assert describe(error)[:3] == (InvalidRequestError, reason, field)


def test_a_data_type_that_the_operation_does_not_take_is_blamed_on_its_own_field(channel: grpc.Channel):
    request = make_infer(operation=reshape_pb2.OPERATION_STATIC_RESHAPE, data=make_spec(6, data_type=2))
    error = catch_remote(lambda: send_raw(channel, "InferShape", request.SerializeToString()))
    assert describe(error)[1:3] == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")


def test_a_broadcast_whose_volume_is_no_dim_is_refused(channel: grpc.Channel):
    request = make_strided([BIG, 4], [0, 0], bytes(4))
    error = catch_remote(lambda: send_raw(channel, "StaticReshape", request.SerializeToString()))
    assert describe(error)[1:3] == (Reason.DIM_OVERFLOW, "shape[0]")


@pytest.mark.parametrize("fields", [{"shape": [1] * 70_000}, {"expected_shape": make_shape(*[None] * 40_000)}])
def test_a_message_with_too_much_beside_its_tensor_is_above_a_limit(channel: grpc.Channel, fields: dict[str, Any]):
    request = reshape_pb2.StaticReshapeRequest(special_zero=False, data=make_tensor(SIX), **fields)
    error = catch_remote(lambda: send_raw(channel, "StaticReshape", request.SerializeToString()))
    assert describe(error)[:2] == (LimitError, Reason.HEAD_TOO_LARGE)


def test_infer_shape_with_too_many_dims_is_above_a_limit(channel: grpc.Channel):
    shape = tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=1)] * 70_000)
    request = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_RESHAPE,
        special_zero=False,
        data=tensor_pb2.TensorSpec(shape=shape),
        shape=shape,
    )
    refusal = catch_remote(lambda: send_raw(channel, "InferShape", request.SerializeToString()))
    assert (type(refusal), getattr(refusal, "reason", "")) == (LimitError, Reason.HEAD_TOO_LARGE)


def test_a_rank_that_no_operation_takes_is_refused_before_it_is_sent(client: Client):
    with pytest.raises(InvalidRequestError) as caught:
        client.infer_shape([1] * 70_000, [1], special_zero=False)
    assert (caught.value.reason, caught.value.field) == (Reason.RANK_UNSUPPORTED, "data.dims")


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_the_status_details_are_those_of_the_contract(channel: grpc.Channel, code: grpc.StatusCode):
    rank_one_more = np.ones(65, "i8")
    requests: dict[grpc.StatusCode, Message] = {
        grpc.StatusCode.INVALID_ARGUMENT: make_static(SIX, [3, -2]),
        grpc.StatusCode.RESOURCE_EXHAUSTED: make_reshape(SIX, rank_one_more),
    }
    request = requests[code]
    status = catch_status(lambda: send_raw(channel, get_method(request), request.SerializeToString()))
    packed = Status.FromString(as_bytes(read_trailing(status)["grpc-status-details-bin"]))
    info, bad = ErrorInfo(), BadRequest()
    assert [packed.details[0].Unpack(info), packed.details[1].Unpack(bad)] == [True, True]
    assert (status.code(), packed.code, packed.message) == (code, code.value[0], status.details())
    assert (info.domain, bad.field_violations[0].description) == ("tensor_reshape.v1", status.details())


@pytest.mark.parametrize("target", [WORST, [*WORST[:11], -2]], ids=["volumes", "an item"])
def test_the_largest_refusal_keeps_its_code_and_stays_small(channel: grpc.Channel, target: list[int]):
    request = make_static(SIX, target, expected_shape=make_shape(*WORST))
    status = catch_status(lambda: send_raw(channel, "StaticReshape", request.SerializeToString()))
    assert (status.code(), measure(status) < 7 * 1024) == (grpc.StatusCode.INVALID_ARGUMENT, True)


def test_the_largest_refusal_of_reshape_stays_small(channel: grpc.Channel):
    huge = [BIG] * 64
    request = make_infer(data=make_spec(*huge), shape=make_shape(*[BIG - 1] * 64), expected_shape=make_shape(*huge))
    status = catch_status(lambda: send_raw(channel, "InferShape", request.SerializeToString()))
    assert (status.code(), measure(status) < 7 * 1024) == (grpc.StatusCode.INVALID_ARGUMENT, True)


def test_a_refusal_affects_nothing_else(client: Client):
    catch_local(lambda: client.infer_shape([2], [3], special_zero=False))
    assert client.infer_shape([2], [2], special_zero=False) == (2,)
