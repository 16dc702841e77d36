"""Describes queries and answers of the conformance suite in words, for the readers of a report."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence

from tensor_reshape.rules.dims import AnyDim, Dim, format_dim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import ONNX_RESHAPE
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import decode_dims, decode_target
from tensor_reshape.wire.inference import decode_condition
from tensor_reshape.wire.json_messages import Json, read_message

_MAX_CHARACTERS = 400


def describe_query(query: Json) -> str:
    """Returns a query in one line: `reshape of [2, 3] to [0, -1], special_zero true`."""
    question = query["question"]
    data, target = question.get("data", {}), question.get("shape")
    operation = str(question.get("operation")).removeprefix("OPERATION_").lower()
    shape = {"dims": data.get("dims", [])} if "data" in data else data.get("shape")
    parts = [f"{operation} of {_describe_shape(shape)} to {_describe_target(target)}"]
    if "specialZero" in question:
        parts.append(f"special_zero {str(question['specialZero']).lower()}")
    if question.get("expectedShape") is not None:
        parts.append(f"expected {_describe_shape(question['expectedShape'])}")
    if "strides" in data:
        parts.append(f"strides {_shorten(data['strides'])}")
    if "dataType" in data:
        parts.append(f"data_type {data['dataType'].removeprefix('DATA_TYPE_').lower()}")
    if "data" in data:
        parts.append(f"bytes {_cut(b64decode(data['data']).hex())}")
    return ", ".join(parts)


def describe_answer(answer: Json | None) -> str:
    """Returns an answer in one line, such as `[2, N (1..8)]` or a rejection. "-" without an answer."""
    if answer is None:
        return "-"
    if answer.get("unsupported") is not None:
        return f"not supported: {_shorten(answer['unsupported'])}"
    if answer.get("rejection") is not None:
        error = answer["rejection"] if isinstance(answer["rejection"], Mapping) else {}
        details = " ".join(_shorten(error[key]) for key in ("reason", "field", "message") if error.get(key))
        return f"rejected: {details}" if details else "rejected"
    try:
        if answer.get("output") is not None:
            tensor = read_message(tensor_pb2.Tensor, answer["output"], ignores_unknown=True)
            return f"{_format(tensor.dims)}, bytes {_cut(tensor.data.hex())}"
        message = read_message(reshape_pb2.InferShapeResponse, answer.get("answer"), ignores_unknown=True)
        # The dims are not checked, because the reader should see what is wrong with them.
        parts = [_format(decode_dims(message.shape, "shape.dims")) if message.HasField("shape") else "[...]"]
    except ReshapeError:
        return _shorten(answer)
    if message.conditions:
        parts.append(f"conditions {_shorten([str(decode_condition(one)) for one in message.conditions])}")
    return ", ".join(parts)


def _describe_shape(shape: Json | None) -> str:
    """Returns a shape in the usual notation, such as `[2, ?, 1..8, N]`; `[...]` if its rank is unknown."""
    if shape is None:
        return "[...]"
    try:
        return _format(decode_dims(read_message(tensor_pb2.Shape, shape), "dims"))
    except ReshapeError:  # a number of more than 64 bits
        return _shorten(shape.get("dims"))


def _describe_target(shape: Json | None) -> str:
    """Returns a requested shape in the usual notation; `[...]` if its length is unknown."""
    if shape is None:
        return "[...]"
    try:
        return _format(decode_target(ONNX_RESHAPE, read_message(reshape_pb2.TargetShape, shape)))
    except ReshapeError:  # a number of more than 64 bits, or too many items
        return _shorten(shape.get("items"))


def _format(dims: Sequence[AnyDim]) -> str:
    return _cut(f"[{', '.join(map(_describe_dim, dims))}]")


def _describe_dim(dim: AnyDim) -> str:
    """Returns a dim in the usual notation, with the bounds of a name."""
    if not isinstance(dim, Dim) or dim.expression is None:
        return format_dim(dim)
    bounds = format_dims([Dim(dim.bounds)])[1:-1]
    return format_dim(dim) if bounds in {"?", "0.."} else f"{dim.expression} ({bounds})"


def _shorten(value: object) -> str:
    return _cut(value if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
