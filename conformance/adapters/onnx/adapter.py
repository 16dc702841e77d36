"""ONNX: shape inference as the checker runs it, and the reference evaluator, which computes with numpy.

- Inference is asked in strict mode: without it, a rejection is left out of the answer, which then says nothing.
- Of the names in an answer those remain that the question has: inference makes others up for what it does not know.
"""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_shapes

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


def infer(question: Question) -> Json:
    """Answers by inference that follows the values of shapes through Shape and Concat (data_prop)."""
    return _infer(question, propagates=True)


def infer_without_propagation(question: Question) -> Json:
    """Answers by inference as it is unless told otherwise: it knows the values of initializers alone."""
    return _infer(question, propagates=False)


def _infer(question: Question, *, propagates: bool) -> Json:
    if question.payload is not None:
        raise Unsupported("Inference executes nothing.")
    model = make_inferred_model(question)
    try:
        inferred = infer_shapes(model, check_type=True, strict_mode=True, data_prop=propagates)
    except InferenceError as error:
        raise Rejected(find_reason(str(error))) from error
    names = list_names(question)
    return read_shape(inferred, lambda name: name if name in names else None)


def evaluate(question: Question) -> Json:
    """Answers by the reference evaluator, of one element that a stride of 0 repeats where only the shape is asked."""
    if question.expected is not None:
        raise Unsupported("It does not look at declared output shapes.")
    model = make_executed_model(question)
    values = {DATA: _make_array(question), SHAPE: np.array(question.shape, np.int64)}
    try:
        (output,) = map(
            np.asarray, ReferenceEvaluator(model).run(None, {name: values[name] for name in list_feeds(model)})
        )
    except (ValueError, IndexError, MemoryError) as error:
        raise Rejected(str(error)) from error
    payload = None if question.payload is None else numpy_helper.from_array(output).raw_data
    return write_answer(output.shape, payload)


def _make_array(question: Question) -> np.ndarray[Any, Any]:
    element_type, dims = find_element_type(question), list_numbers(question.data)
    if question.payload is not None:
        tensor = TensorProto(name=DATA, data_type=element_type, dims=dims, raw_data=question.payload)
        try:
            return numpy_helper.to_array(tensor)
        except ValueError as error:
            raise Rejected(str(error)) from error
    try:
        data_type = np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
        # numpy has no strided view of some types that are not its own.
        element = np.zeros(1, data_type).view(f"V{data_type.itemsize}")
        return as_strided(element, dims, [0] * len(dims)).view(data_type)
    except ValueError as error:
        raise Unsupported("numpy has no array of that shape.") from error


if __name__ == "__main__":
    run({"onnx": infer, "onnx-without-propagation": infer_without_propagation, "onnx-reference": evaluate})
