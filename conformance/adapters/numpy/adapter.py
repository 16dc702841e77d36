"""Asks numpy: the shape of `array.reshape(shape)`, and its bytes.

- An array of which only the shape matters repeats one byte, so that one of 2^62 elements can be made.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from conformance.adapters.array_libraries import (
    check_is_offered,
    check_type,
    find_span,
    list_types,
    read_known,
    reject_data,
)
from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Json, Question, write_answer

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DTYPES = list_types(np.dtype)
_REJECTIONS = (ValueError, TypeError, OverflowError)


def answer(question: Question) -> Json:
    """Returns what numpy makes of the array."""
    check_is_offered(question)
    dims, shape = read_known(question.data), read_known(question.shape)
    check_type(question, DTYPES)
    array = _make_array(question, dims)
    try:
        output = array.reshape(shape)
    except _REJECTIONS as error:
        raise Rejected(str(error)) from error
    payload = None if question.payload is None else output.tobytes()
    return write_answer(output.shape, payload)


def _make_array(question: Question, dims: tuple[int, ...]) -> Array:
    dtype = DTYPES[question.data_type or "u8"]
    try:
        if question.payload is None:
            return as_strided(np.zeros(1, np.uint8), dims, [0] * len(dims))
        if question.strides is not None:
            return _make_strided(question.payload, dims, question.strides, dtype)
        if math.prod(dims) * dtype.itemsize != len(question.payload):
            raise Unsupported("An array has the bytes of its shape.")
        return np.ndarray(dims, dtype, question.payload)
    except _REJECTIONS as error:
        raise reject_data(dims, str(error)) from error


def _make_strided(memory: bytes, dims: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if len(memory) > max(find_span(dims, strides) * dtype.itemsize, 1):
        raise Unsupported("The memory of an array may be longer than it is.")
    try:
        return np.ndarray(dims, dtype, memory, strides=[stride * dtype.itemsize for stride in strides])
    except _REJECTIONS as error:
        raise Rejected(str(error)) from error


if __name__ == "__main__":
    run({"numpy": answer})
