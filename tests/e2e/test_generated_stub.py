"""Calls with generated messages and without the SDK, as a program in another language makes them."""

import grpc
import numpy as np

from plain_requests import catch_status, send_raw
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.v1.reshape_pb2_grpc import ReshapeServiceStub

F32 = tensor_pb2.DATA_TYPE_F32
SIX = np.arange(6, dtype="<f4")
TENSOR = tensor_pb2.Tensor(data_type=F32, dims=[2, 3], data=SIX.tobytes())
TARGET = reshape_pb2.TargetShape(items=[3, 2])
STATIC = reshape_pb2.StaticReshapeRequest(shape=TARGET, special_zero=False, data=TENSOR).SerializeToString()


def make_shape(*dims: int) -> tensor_pb2.Shape:
    return tensor_pb2.Shape(dims=dims)


def make_target(*items: int, dtype: str = "<i4") -> tensor_pb2.Tensor:
    types = {"<i4": tensor_pb2.DATA_TYPE_I32, "<i8": tensor_pb2.DATA_TYPE_I64}
    return tensor_pb2.Tensor(data_type=types[dtype], dims=[len(items)], data=np.array(items, dtype).tobytes())


def flatten(stub: ReshapeServiceStub, dims: list[int], strides: list[int], data: bytes) -> bytes:
    tensor = tensor_pb2.Tensor(data_type=F32, dims=dims, strides=strides, data=data)
    shape = reshape_pb2.TargetShape(items=[-1])
    request = reshape_pb2.StaticReshapeRequest(shape=shape, special_zero=False, data=tensor)
    return stub.StaticReshape(request).output.data


def test_each_operation_returns_a_dense_tensor_to_a_stub(stub: ReshapeServiceStub):
    output = stub.StaticReshape(reshape_pb2.StaticReshapeRequest.FromString(STATIC)).output
    assert output == tensor_pb2.Tensor(data_type=F32, dims=[3, 2], data=SIX.tobytes())
    dynamic = reshape_pb2.DynamicReshapeRequest(shape=make_target(-1, 0), special_zero=True, data=TENSOR)
    assert stub.DynamicReshape(dynamic).output.dims == [2, 3]
    target = make_target(6, dtype="<i8")
    target.strides.append(2**62)  # unused, because there is only one item
    reshape = reshape_pb2.ReshapeRequest(shape=target, special_zero=False, data=TENSOR)
    assert stub.Reshape(reshape).output.dims == [6]


def test_tensor_strides_are_counted_in_elements(stub: ReshapeServiceStub):
    data = SIX.tobytes()
    assert flatten(stub, [3, 2], [1, 3], data) == SIX.reshape(2, 3).T.tobytes()
    assert flatten(stub, [2, 2], [4, 1], data) == SIX[[0, 1, 4, 5]].tobytes()  # a gap between rows
    assert flatten(stub, [6, 2], [1, 0], data) == SIX.repeat(2).tobytes()


def test_error_for_a_negative_dim_has_no_advice_for_python(stub: ReshapeServiceStub):
    tensor = tensor_pb2.Tensor(data_type=F32, dims=[-2, 3], data=SIX.tobytes())
    executed = reshape_pb2.StaticReshapeRequest(shape=TARGET, special_zero=False, data=tensor)
    query = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_RESHAPE,
        special_zero=False,
        data=tensor_pb2.TensorSpec(shape=make_shape(-2, 3)),
        shape=reshape_pb2.TargetShape(items=[6]),
    )
    text = "data.dims[0] is -2; a dimension must be from 0 to 2^63 - 1"
    assert catch_status(lambda: stub.StaticReshape(executed)).details() == text
    assert catch_status(lambda: stub.InferShape(query)).details() == text


def encode_field(number: int, payload: bytes) -> bytes:
    assert len(payload) < 0x80
    return bytes([number << 3 | 2, len(payload)]) + payload


UNKNOWN_FIELDS = b"\xa8\x1f\x05" + b"\xb2\x1f\x03abc" + b"\xbd\x1f\x00\x00\x00\x00" + b"\xc1\x1f" + bytes(8)
RAW_TENSOR, RAW_DATA = TENSOR.SerializeToString(), encode_field(15, SIX.tobytes())
RAW_HEAD = b"\x08\x0e" + encode_field(2, b"\x02\x03")  # data type and dims of the tensor
KNOWN = b"\x0a\x04\x0a\x02\x06\x04\x10\x00"  # shape and special_zero
FORMS: dict[str, bytes] = {
    "unknown fields in front": UNKNOWN_FIELDS + STATIC,
    "unknown fields behind": STATIC + UNKNOWN_FIELDS,
    "unknown fields in front, in the tensor": KNOWN + encode_field(15, UNKNOWN_FIELDS + RAW_TENSOR),
    "unknown fields behind, in the tensor": KNOWN + encode_field(15, RAW_TENSOR + UNKNOWN_FIELDS),
    "the tensor first": encode_field(15, RAW_TENSOR) + KNOWN,
    "the bytes first, in the tensor": KNOWN + encode_field(15, RAW_DATA + RAW_HEAD),
    "a tensor in two pieces": encode_field(15, RAW_HEAD) + KNOWN + encode_field(15, RAW_DATA),
    "dims one by one": b"\x0a\x04\x08\x06\x08\x04\x10\x00" + encode_field(15, b"\x08\x0e\x10\x02\x10\x03" + RAW_DATA),
}


def reshape(channel: grpc.Channel, raw: bytes) -> tuple[list[int], bytes]:
    output = reshape_pb2.StaticReshapeResponse.FromString(send_raw(channel, "StaticReshape", raw)).output
    return list(output.dims), output.data


def test_server_parses_every_valid_protobuf_encoding_of_a_request(channel: grpc.Channel):
    outputs = {name: reshape(channel, raw) for name, raw in FORMS.items()}
    assert outputs == dict.fromkeys(FORMS, ([3, 2], SIX.tobytes()))
    twice = (
        b"\x10\x00\x10\x01" + b"\x0a\x04\x0a\x02\x00\x06" + encode_field(15, RAW_TENSOR)
    )  # the last value of special_zero applies
    assert reshape(channel, twice) == ([2, 3], SIX.tobytes())


def test_payload_fields_have_the_highest_number_in_proto_messages():
    messages = [*reshape_pb2.DESCRIPTOR.message_types_by_name.values(), tensor_pb2.Tensor.DESCRIPTOR]
    fields = {f"{message.name}.{field.name}": field.number for message in messages for field in message.fields}
    assert max(fields.values()) == 15
    assert {name for name, number in fields.items() if number == 15} == {
        *(f"{operation}Request.data" for operation in ("StaticReshape", "DynamicReshape", "Reshape")),
        *(f"{operation}Response.output" for operation in ("StaticReshape", "DynamicReshape", "Reshape")),
        *("StreamReshapeRequest.chunk", "StreamReshapeResponse.chunk", "Tensor.data"),
    }


def test_bounds_of_a_repeated_symbol_are_intersected(stub: ReshapeServiceStub):
    bounded = tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(max=5))
    expression = tensor_pb2.Expression(factors=[tensor_pb2.Symbol(name="N"), bounded])
    request = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_RESHAPE,
        special_zero=False,
        data=tensor_pb2.TensorSpec(shape=make_shape(-1)),
        shape=reshape_pb2.TargetShape(items=[-1]),
    )
    request.data.shape.partial.add(index=0, expression=expression)
    (dim,) = stub.InferShape(request).shape.partial
    assert [symbol.name for symbol in dim.expression.factors] == ["N", "N"]
