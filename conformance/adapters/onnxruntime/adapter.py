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
from onnx import ModelProto
from onnxruntime.capi import onnxruntime_pybind11_state as states
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

from conformance.adapters.onnx.models import (
    DATA,
    SHAPE,
    find_element_type,
    list_feeds,
    list_numbers,
    make_executed_model,
    make_inferred_model,
)
from conformance.adapters.programs import Refused, Unsupported, run
from conformance.adapters.questions import Dim, Json, Question, Unknown, write_dims

_MAX_ELEMENTS = 2**26
"""Of a tensor that is allocated: some hundred MiB of the widest elements."""
_REFUSALS = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.RuntimeException)
_PYTHON_REFUSALS = (AssertionError, IndexError, OverflowError, TypeError, ValueError, ZeroDivisionError)
"""The tool has no error of its own: it refuses by whichever exception the interpreter meets first."""


def execute(question: Question) -> Json:
    """Answers by a session that runs the model."""
    if question.expected is not None:
        raise Unsupported("It only warns where an output is not as declared.")
    model = make_executed_model(question)
    values = {DATA: _make_data(question), SHAPE: onnxruntime.OrtValue.ortvalue_from_numpy(_make_target(question))}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (output,) = session.run_with_ort_values(None, {name: values[name] for name in list_feeds(model)})
    except states.NotImplemented as error:
        raise Unsupported("It has no kernel for that element type.") from error
    except _REFUSALS as error:
        raise Refused(str(error).strip()) from error
    answer: Json = {"shape": output.shape()}
    if question.payload is not None:
        answer["bytes"] = ctypes.string_at(output.data_ptr(), output.tensor_size_in_bytes()).hex()
    return answer


def _make_target(question: Question) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(question.shape, np.int64)


def _make_data(question: Question) -> onnxruntime.OrtValue:
    dims = list_numbers(question.data)
    if prod(dims) > _MAX_ELEMENTS or min(dims, default=0) < 0:
        raise Unsupported("A tensor of that size is not allocated.")
    data = onnxruntime.OrtValue.ortvalue_from_shape_and_type(dims, find_element_type(question))
    if question.payload is not None:
        if len(question.payload) != data.tensor_size_in_bytes():
            raise Unsupported("A tensor has the bytes that its dims make.")
        ctypes.memmove(data.data_ptr(), question.payload, len(question.payload))
    return data


def infer(question: Question) -> Json:
    """Answers by the symbolic shape inference."""
    if question.payload is not None:
        raise Unsupported("Inference executes nothing.")
    if question.expected is not None:
        raise Unsupported("It does not look at declared output shapes.")
    model = make_inferred_model(question)
    try:
        inferred = SymbolicShapeInference.infer_shapes(model)
    except _PYTHON_REFUSALS as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    return _read_shape(inferred, question)


def _read_shape(inferred: ModelProto, question: Question) -> Json:
    tensor = inferred.graph.output[0].type.tensor_type
    if not tensor.HasField("shape"):
        return {"shape": None}
    dims = [dim for dims in (question.data, question.shape) for dim in dims or () if isinstance(dim, Unknown)]
    names = {name for dim in dims for name in _list_names(dim.name or "")}
    return {
        "shape": write_dims(
            int(dim.dim_value) if dim.HasField("dim_value") else _read_name(dim.dim_param, names)
            for dim in tensor.shape.dim
        )
    }


def _read_name(text: str, names: AbstractSet[str]) -> Dim:
    """Returns a dim of which the tool says an expression; where that has names of its own, nothing is said.

    Where a reshape is possible the tool divides without a remainder, so its floor(3*N/2) is 3*N/2.
    """
    expression = re.sub(r"^floor\((.*)\)$", r"\1", text).replace("**", "^")
    return Unknown(name=expression if set(_list_names(expression)) <= names else None)


def _list_names(expression: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", expression)


if __name__ == "__main__":
    run({"onnxruntime": execute, "onnxruntime-symbolic": infer})
