"""Asks TensorFlow: `tf.reshape(tensor, shape)`, eagerly, and the shape that a graph infers for it.

- A dim of a graph is a number or unknown. An item of which nothing is known, which may be a -1 as well, is an input of
  the graph, and so is a target of which not even the length is known.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from conformance.adapters.array_libraries import (
    check_is_offered,
    check_type,
    list_types,
    read_known,
    read_line,
    reject_data,
)
from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Dim, Json, Question, Unknown, write_answer

Tensor: TypeAlias = Any  # TensorFlow has no types

DTYPES = list_types(partial(getattr, tf)) | {
    "bf16": tf.bfloat16,
    "f8e4m3": tf.dtypes.experimental.float8_e4m3fn,
    "f8e5m2": tf.dtypes.experimental.float8_e5m2,
}
_MAX_ELEMENTS = 2**20
_REJECTIONS = (tf.errors.OpError, ValueError, TypeError, OverflowError)


def answer_eager(question: Question) -> Json:
    """Returns what becomes of a tensor."""
    _check_is_offered(question)
    dims, shape = read_known(question.data), read_known(question.shape)
    tensor = _make_tensor(question, dims)
    try:
        output = tf.reshape(tensor, shape)
    except _REJECTIONS as error:
        raise Rejected(read_line(error)) from error
    return write_answer(output.shape, None if question.payload is None else output.numpy().tobytes())


def _check_is_offered(question: Question) -> None:
    check_is_offered(question)
    if question.strides is not None:
        raise Unsupported("Its tensors have no strides.")
    check_type(question, DTYPES)


def _make_tensor(question: Question, dims: tuple[int, ...]) -> Tensor:
    if question.payload is None and math.prod(dims) > _MAX_ELEMENTS:
        raise Unsupported("It cannot make a tensor of that size.")
    try:
        if question.payload is None:
            return tf.zeros(dims, tf.uint8)
        flat = np.frombuffer(question.payload, DTYPES[question.data_type or "u8"].as_numpy_dtype)
        if flat.size != math.prod(dims):
            raise Unsupported("A tensor has the bytes of its shape.")
        return tf.constant(flat.reshape(dims))
    except _REJECTIONS as error:
        raise reject_data(dims, read_line(error)) from error


def answer_graph(question: Question) -> Json:
    """Returns the shape that a graph has for the output."""
    _check_is_offered(question)
    if question.payload is not None:
        raise Unsupported("It has no data.")
    with tf.Graph().as_default():
        data = _make_input(_read_dims(question.data))
        try:
            shape = tf.reshape(data, _make_target(question.shape)).shape
        except _REJECTIONS as error:
            raise Rejected(read_line(error)) from error
    return write_answer(None if shape.rank is None else [Unknown() if dim is None else dim for dim in shape])


def _read_dims(dims: Sequence[Dim] | None) -> list[int | None] | None:
    if dims is None:
        return None
    if any(isinstance(dim, Unknown) and dim != Unknown() for dim in dims):
        raise Unsupported("Its dims have no bounds and no names.")
    return [dim if isinstance(dim, int) else None for dim in dims]


def _make_input(dims: list[int | None] | None) -> Tensor:
    try:
        return tf.compat.v1.placeholder(tf.uint8, dims)
    except _REJECTIONS as error:
        raise reject_data([dim for dim in dims or () if dim is not None], read_line(error)) from error


def _make_target(items: Sequence[Dim] | None) -> Tensor:
    known = _read_dims(items)
    if known is None:
        return tf.compat.v1.placeholder(tf.int64, [None])
    return [tf.compat.v1.placeholder(tf.int64, []) if item is None else item for item in known]


if __name__ == "__main__":
    run({"tensorflow": answer_eager, "tensorflow-graph": answer_graph})
