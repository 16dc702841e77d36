"""Questions that are not read, and what is not taken for such: reason and field of each."""

import pytest

from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire import inference


def known_shape(*values: int) -> tensor_pb2.Shape:
    return tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=value) for value in values])


def known_data(*values: int, data_type: int = 0) -> tensor_pb2.TensorSpec:
    return tensor_pb2.TensorSpec(data_type=tensor_pb2.DataType.ValueType(data_type), shape=known_shape(*values))


def infer_request(
    operation: int = 3,
    data: tensor_pb2.TensorSpec | None = None,
    shape: tensor_pb2.Shape | None = None,
    expected_shape: tensor_pb2.Shape | None = None,
) -> bytes:
    return reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.Operation.ValueType(operation),
        special_zero=True,
        data=data,
        shape=shape,
        expected_shape=expected_shape,
    ).SerializeToString()


ONE = known_shape(1)
VECTOR = known_data(1)
INFERENCES: dict[str, tuple[bytes, Reason, str]] = {
    "malformed": (b"\x08", Reason.MESSAGE_MALFORMED, ""),
    "empty": (b"", Reason.OPERATION_UNSPECIFIED, "operation"),
    "no operation": (infer_request(0, data=VECTOR, shape=ONE), Reason.OPERATION_UNSPECIFIED, "operation"),
    "an operation to come": (infer_request(4, data=VECTOR, shape=ONE), Reason.OPERATION_UNSPECIFIED, "operation"),
    "no data": (infer_request(shape=ONE), Reason.FIELD_MISSING, "data"),
    "no such type": (
        infer_request(data=known_data(1, data_type=1000), shape=ONE),
        Reason.DATA_TYPE_UNSUPPORTED,
        "data.data_type",
    ),
    "above 64 KiB": (bytes(MAX_HEADER_BYTES + 1), Reason.HEAD_TOO_LARGE, ""),
}


@pytest.mark.parametrize(("raw", "reason", "field"), INFERENCES.values(), ids=INFERENCES.keys())
def test_a_request_to_infer_is_refused(raw: bytes, reason: Reason, field: str):
    with pytest.raises(ReshapeError) as caught:
        inference.decode_infer_request(raw)
    assert (caught.value.reason, caught.value.field) == (reason, field)


# A shape whose dim is as a later version of the contract may write it: field 5, a message.
LATER_DIM = b"\x0a\x04\x2a\x02\x08\x01"


@pytest.mark.parametrize(("field", "path"), [(3, "data.dims[0]"), (4, "shape[0]"), (5, "expected_shape.dims[0]")])
def test_a_dim_of_a_kind_to_come_is_refused_and_not_dropped(field: int, path: str):
    shape = LATER_DIM if field != 3 else b"\x12\x06" + LATER_DIM
    later = bytes([field << 3 | 2, len(shape)]) + shape
    known = infer_request(data=VECTOR if field != 3 else None, shape=ONE if field != 4 else None)
    with pytest.raises(ReshapeError) as caught:
        inference.decode_infer_request(known + later)
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNKNOWN, path)


def test_data_of_unknown_rank_is_not_taken_for_a_scalar():
    request = inference.decode_infer_request(infer_request(data=tensor_pb2.TensorSpec(), shape=ONE))
    assert request.question.data is None


def test_the_shape_of_a_scalar_is_not_a_missing_shape():
    scalar = known_shape()
    request = inference.decode_infer_request(infer_request(data=known_data(), shape=scalar, expected_shape=scalar))
    assert (request.question.data, request.question.target, request.question.expected) == ([], [], [])
