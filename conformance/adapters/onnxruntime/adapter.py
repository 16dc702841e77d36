"""onnxruntime: what its CPU provider computes, and its symbolic shape inference, a tool that ships with it.

- Data is fed as it is, and so is the target of DynamicReshape; that of Reshape-1 is part of the model.
- Memory is allocated for what is executed, so only what is small, or empty, is.
"""

import ctypes
import re
from collections.abc import Set as AbstractSet
from math import prod

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as states
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

from conformance.adapters.onnx.answers import find_reason, list_names, read_shape
from conformance.adapters.onnx.models import (
    DATA,
    SHAPE,
    find_element_type,
    list_feeds,
    list_numbers,
    make_executed_model,
    make_inferred_model,
)
from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Json, Question, write_answer

_MAX_ELEMENTS = 2**26
"""Of a tensor that is allocated: some hundred MiB of the widest elements."""
_REJECTIONS = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.RuntimeException)
_PYTHON_REJECTIONS = (AssertionError, IndexError, OverflowError, TypeError, ValueError, ZeroDivisionError)
"""The tool has no error of its own: it rejects by whichever exception the interpreter meets first."""


def execute(question: Question) -> Json:
    """Answers by a session that runs the model."""
    if question.expected is not None:
        raise Unsupported("By default it only warns where an output is not as declared.")
    model = make_executed_model(question)
    values = {DATA: _make_data(question), SHAPE: _make_target(question)}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (output,) = session.run_with_ort_values(None, {name: values[name] for name in list_feeds(model)})
    except states.NotImplemented as error:
        raise Unsupported("It has no kernel for that element type.") from error
    except _REJECTIONS as error:
        raise Rejected(find_reason(str(error))) from error
    payload = None
    if question.payload is not None:
        payload = ctypes.string_at(output.data_ptr(), output.tensor_size_in_bytes())
    return write_answer(output.shape(), payload)


def _make_target(question: Question) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.array(question.shape, np.int64))


def _make_data(question: Question) -> onnxruntime.OrtValue:
    dims = list_numbers(question.data)
    if prod(dims) > _MAX_ELEMENTS or min(dims, default=0) < 0:
        raise Unsupported("A tensor of that size is not allocated.")
    try:
        data = onnxruntime.OrtValue.ortvalue_from_shape_and_type(dims, find_element_type(question))
    except RuntimeError as error:  # the product of its dims overflows, although one of them is 0
        raise Unsupported("A tensor of that size is not allocated.") from error
    if question.payload is not None:
        _fill(data, question.payload)
    return data


def _fill(data: onnxruntime.OrtValue, payload: bytes) -> None:
    if len(payload) != data.tensor_size_in_bytes():
        raise Unsupported("A tensor has the bytes that its dims make.")
    ctypes.memmove(data.data_ptr(), payload, len(payload))


def infer(question: Question) -> Json:
    """Answers by the symbolic shape inference."""
    if question.payload is not None:
        raise Unsupported("Inference executes nothing.")
    if question.expected is not None:
        raise Unsupported("It does not look at declared output shapes.")
    model = make_inferred_model(question)
    try:
        inferred = SymbolicShapeInference.infer_shapes(model)
    except _PYTHON_REJECTIONS as error:
        raise Rejected(f"{type(error).__name__}: {error}") from error
    names = {part for name in list_names(question) for part in _list_parts(name)}
    return read_shape(inferred, lambda name: _read_expression(name, names))


def _read_expression(text: str, names: AbstractSet[str]) -> str | None:
    """Returns the expression that the tool says of a dim, None where it is of names that are its own.

    Where a reshape is possible the tool divides without a remainder, so its floor(3*N/2) is 3*N/2.
    """
    expression = re.sub(r"^floor\((.*)\)$", r"\1", text).replace("**", "^")
    return expression if set(_list_parts(expression)) <= names else None


def _list_parts(expression: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", expression)


if __name__ == "__main__":
    run({"onnxruntime": execute, "onnxruntime-symbolic": infer})
