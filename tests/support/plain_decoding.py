"""What the generated classes make of a message, for comparison."""

from google.protobuf.message import DecodeError, Message
from verification.dims import read_dims_plainly

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.reshapes import ReshapeCall, read_target
from tensor_reshape.wire.tensors import TensorView

RequestMessage = reshape_pb2.StaticReshapeRequest | reshape_pb2.DynamicReshapeRequest | reshape_pb2.ReshapeRequest

KINDS: dict[Operation, type[RequestMessage]] = {
    STATIC_RESHAPE: reshape_pb2.StaticReshapeRequest,
    DYNAMIC_RESHAPE: reshape_pb2.DynamicReshapeRequest,
    RESHAPE: reshape_pb2.ReshapeRequest,
}

MALFORMED: tuple[object, ...] = (Reason.MESSAGE_MALFORMED, "", {})


def refuse(error: ReshapeError) -> tuple[object, ...]:
    return error.reason, error.field, error.metadata


def check_tensor(message: Message, field: str) -> None:
    if not message.HasField(field):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "", field)
    number = getattr(message, field).data_type
    if number not in set(DataType):
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, "", f"{field}.data_type", value=number)


def view(tensor: tensor_pb2.Tensor) -> TensorView:
    return TensorView(
        DataType(tensor.data_type), tuple(tensor.dims), tuple(tensor.strides) or None, memoryview(tensor.data)
    )


def read_plainly(operation: Operation, message: RequestMessage) -> tuple[object, ...]:
    """What a message says that the generated class has read."""
    shape = message.shape
    try:
        check_tensor(message, "data")
        if isinstance(shape, tensor_pb2.Tensor):
            check_tensor(message, "shape")
            target = read_target(operation, view(shape))
        else:
            target = list(shape)
        expected = read_dims_plainly(message.expected_shape.dims, "expected_shape.dims")
    except ReshapeError as error:
        return refuse(error)
    return (
        message.special_zero if message.HasField("special_zero") else None,
        target,
        expected if message.HasField("expected_shape") else None,
        DataType(message.data.data_type),
        list(message.data.dims),
        list(message.data.strides) or None,
        message.data.data,
    )


def decode_plainly(operation: Operation, raw: bytes) -> tuple[object, ...]:
    """What the generated class makes of the whole request."""
    try:
        return read_plainly(operation, KINDS[operation].FromString(raw))
    except DecodeError:
        return MALFORMED


def describe_call(call: ReshapeCall) -> tuple[object, ...]:
    """What a request says, in the form of `read_plainly`."""
    question, data = call.question, call.data
    assert (question.data, question.data_type) == (data.dims, data.data_type)
    return (
        question.special_zero,
        list(question.target),
        None if question.expected is None else list(question.expected),
        data.data_type,
        list(data.dims),
        None if data.strides is None else list(data.strides),
        bytes(data.payload),
    )
