"""The contract as a program in another language sees it: generated messages, nothing of the SDK."""

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from remote_refusals import catch_remote, send_raw
from tensor_reshape.client import LimitError, Reason, ReshapeError
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2

SIX = np.arange(6, dtype="<f4")
TENSOR = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[2, 3], data=SIX.tobytes())
STATIC = reshape_pb2.StaticReshapeRequest(shape=[3, 2], special_zero=False, data=TENSOR)
UNKNOWN_FIELDS = b"\xa8\x1f\x05" + b"\xb2\x1f\x03abc" + b"\xbd\x1f\x00\x00\x00\x00" + b"\xc1\x1f" + bytes(8)


def make_shape(*dims: int) -> tensor_pb2.Shape:
    return tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=dim) for dim in dims])


def make_target(*items: int, dtype: str = "<i4") -> tensor_pb2.Tensor:
    types = {"<i4": tensor_pb2.DATA_TYPE_I32, "<i8": tensor_pb2.DATA_TYPE_I64}
    return tensor_pb2.Tensor(data_type=types[dtype], dims=[len(items)], data=np.array(items, dtype).tobytes())


def encode_field(number: int, payload: bytes) -> bytes:
    assert len(payload) < 0x80
    return bytes([number << 3 | 2, len(payload)]) + payload


def send_static(channel: grpc.Channel, request: bytes) -> tensor_pb2.Tensor:
    return reshape_pb2.StaticReshapeResponse.FromString(send_raw(channel, "StaticReshape", request)).output


def test_static_reshape_answers_a_dense_tensor_of_the_same_type(stub: reshape_pb2_grpc.ReshapeServiceStub):
    output = stub.StaticReshape(STATIC).output
    assert output == tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[3, 2], data=SIX.tobytes())


def test_dynamic_reshape_takes_a_shape_tensor(stub: reshape_pb2_grpc.ReshapeServiceStub):
    request = reshape_pb2.DynamicReshapeRequest(shape=make_target(-1, 0), special_zero=True, data=TENSOR)
    assert stub.DynamicReshape(request).output.dims == [2, 3]


def test_reshape_takes_a_shape_tensor(stub: reshape_pb2_grpc.ReshapeServiceStub):
    request = reshape_pb2.ReshapeRequest(shape=make_target(6, dtype="<i8"), special_zero=False, data=TENSOR)
    assert stub.Reshape(request).output.dims == [6]


@pytest.mark.parametrize("operation", reshape_pb2.Operation.values()[1:])
def test_infer_shape_answers_for_every_operation(stub: reshape_pb2_grpc.ReshapeServiceStub, operation: int):
    request = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.Operation.ValueType(operation),
        special_zero=True,
        data=tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_F32, shape=make_shape(2, 3, 4)),
        shape=make_shape(0, -1),
    )
    assert stub.InferShape(request).shape == make_shape(2, 12)


def test_infer_shape_of_a_scalar_answers_a_shape_without_dims(stub: reshape_pb2_grpc.ReshapeServiceStub):
    request = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_STATIC_RESHAPE,
        special_zero=False,
        data=tensor_pb2.TensorSpec(shape=tensor_pb2.Shape()),
        shape=tensor_pb2.Shape(),
    )
    response = stub.InferShape(request)
    assert (response.HasField("shape"), list(response.shape.dims)) == (True, [])


def test_strides_are_counted_in_elements(stub: reshape_pb2_grpc.ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[3, 2], strides=[1, 3], data=SIX.tobytes())
    request = reshape_pb2.StaticReshapeRequest(shape=[6], special_zero=False, data=tensor)
    assert stub.StaticReshape(request).output.data == SIX.reshape(2, 3).T.tobytes()


def test_a_row_gap_is_skipped(stub: reshape_pb2_grpc.ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[2, 2], strides=[4, 1], data=SIX.tobytes())
    request = reshape_pb2.StaticReshapeRequest(shape=[4], special_zero=False, data=tensor)
    assert stub.StaticReshape(request).output.data == SIX[[0, 1, 4, 5]].tobytes()


def test_a_stride_of_0_repeats_an_element(stub: reshape_pb2_grpc.ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[6, 2], strides=[1, 0], data=SIX.tobytes())
    request = reshape_pb2.StaticReshapeRequest(shape=[12], special_zero=False, data=tensor)
    assert stub.StaticReshape(request).output.data == SIX.repeat(2).tobytes()


@pytest.mark.parametrize(("dims", "strides"), [([1], [2**62]), ([1, 6], [2**61, 1]), ([6, 1], [1, 2**63 - 1])])
def test_the_stride_of_a_dim_of_one_is_never_stepped(
    stub: reshape_pb2_grpc.ReshapeServiceStub, dims: list[int], strides: list[int]
):
    data = SIX[: max(dims)].tobytes()
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=dims, strides=strides, data=data)
    request = reshape_pb2.StaticReshapeRequest(shape=[-1], special_zero=False, data=tensor)
    assert stub.StaticReshape(request).output.data == data


def test_the_stride_of_a_shape_of_one_item_is_never_stepped(stub: reshape_pb2_grpc.ReshapeServiceStub):
    target = make_target(6, dtype="<i8")
    target.strides.append(2**62)
    request = reshape_pb2.ReshapeRequest(shape=target, special_zero=False, data=TENSOR)
    assert stub.Reshape(request).output.dims == [6]


def test_an_empty_tensor_may_have_huge_other_dims(stub: reshape_pb2_grpc.ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[0])
    request = reshape_pb2.StaticReshapeRequest(shape=[2**62, 4, 0], special_zero=False, data=tensor)
    assert stub.StaticReshape(request).output.dims == [2**62, 4, 0]


def test_an_empty_tensor_may_have_huge_strides(stub: reshape_pb2_grpc.ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[0, 2**62], strides=[2**62, 2**62])
    request = reshape_pb2.StaticReshapeRequest(shape=[0], special_zero=False, data=tensor)
    assert stub.StaticReshape(request).output.dims == [0]


def test_a_broadcast_above_the_output_limit_is_refused(stub: reshape_pb2_grpc.ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[2**40], strides=[0], data=bytes(4))
    request = reshape_pb2.StaticReshapeRequest(shape=[-1], special_zero=False, data=tensor)
    error = catch_remote(lambda: stub.StaticReshape(request))
    assert isinstance(error, LimitError)
    assert (error.reason, error.metadata["size"]) == (Reason.OUTPUT_TOO_LARGE, str(2**42))


@pytest.mark.parametrize("items", [65, 2**40, 2**62])
def test_a_broadcast_shape_with_too_many_items_is_refused_before_they_are_read(
    stub: reshape_pb2_grpc.ReshapeServiceStub, items: int
):
    target = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[items], strides=[0], data=b"\x01")
    request = reshape_pb2.ReshapeRequest(shape=target, special_zero=False, data=TENSOR)
    error = catch_remote(lambda: stub.Reshape(request, timeout=60))
    assert isinstance(error, ReshapeError)
    assert error.reason == Reason.RANK_LIMIT_EXCEEDED


def test_unknown_fields_of_a_request_are_ignored(channel: grpc.Channel):
    assert send_static(channel, UNKNOWN_FIELDS + STATIC.SerializeToString()).dims == [3, 2]


def test_unknown_fields_behind_the_tensor_are_ignored(channel: grpc.Channel):
    assert send_static(channel, STATIC.SerializeToString() + UNKNOWN_FIELDS).dims == [3, 2]


@pytest.mark.parametrize("order", ["in front", "behind"])
def test_unknown_fields_of_a_tensor_are_ignored(channel: grpc.Channel, order: str):
    tensor = TENSOR.SerializeToString()
    tensor = UNKNOWN_FIELDS + tensor if order == "in front" else tensor + UNKNOWN_FIELDS
    request = b"\x0a\x02\x03\x02\x10\x00" + encode_field(15, tensor)
    assert send_static(channel, request).data == SIX.tobytes()


def test_the_tensor_may_come_first(channel: grpc.Channel):
    request = encode_field(15, TENSOR.SerializeToString()) + b"\x0a\x02\x03\x02\x10\x00"
    assert send_static(channel, request).dims == [3, 2]


def test_the_bytes_of_a_tensor_may_come_first(channel: grpc.Channel):
    tensor = encode_field(15, SIX.tobytes()) + b"\x08\x0e" + encode_field(2, b"\x02\x03")
    assert send_static(channel, b"\x0a\x02\x03\x02\x10\x00" + encode_field(15, tensor)).data == SIX.tobytes()


def test_a_tensor_may_come_in_two_pieces(channel: grpc.Channel):
    head = encode_field(15, b"\x08\x0e" + encode_field(2, b"\x02\x03"))
    request = head + b"\x0a\x02\x03\x02\x10\x00" + encode_field(15, encode_field(15, SIX.tobytes()))
    assert send_static(channel, request).data == SIX.tobytes()


def test_dims_may_be_unpacked(channel: grpc.Channel):
    tensor = b"\x08\x0e" + b"\x10\x02\x10\x03" + encode_field(15, SIX.tobytes())
    request = b"\x08\x03\x08\x02" + b"\x10\x00" + encode_field(15, tensor)
    assert send_static(channel, request).dims == [3, 2]


def test_the_last_value_of_a_repeated_scalar_field_counts(channel: grpc.Channel):
    request = b"\x10\x00\x10\x01" + b"\x0a\x02\x00\x03" + encode_field(15, TENSOR.SerializeToString())
    assert send_static(channel, request).dims == [2, 3]


@pytest.mark.parametrize(
    "message",
    [
        reshape_pb2.StaticReshapeRequest,
        reshape_pb2.DynamicReshapeRequest,
        reshape_pb2.ReshapeRequest,
        reshape_pb2.StaticReshapeResponse,
        reshape_pb2.DynamicReshapeResponse,
        reshape_pb2.ReshapeResponse,
        tensor_pb2.Tensor,
    ],
    ids=lambda message: message.DESCRIPTOR.name,
)
def test_the_payload_is_the_last_field(message: type[Message]):
    numbers = {name: field.number for name, field in message.DESCRIPTOR.fields_by_name.items()}
    assert (max(numbers, key=lambda name: numbers[name]) in {"data", "output"}, max(numbers.values())) == (True, 15)
