"""What OpenVINO does for the questions of `benchmarks.shape_questions`: a node for each, validated as it is made."""

from collections.abc import Callable, Sequence
from typing import Any

import openvino
from openvino import opset1

from benchmarks.shape_questions import ShapeQuestion
from tensor_reshape.client import DimLike

VERSION = openvino.__version__
_UNBOUNDED = -1


def prepare(questions: Sequence[ShapeQuestion]) -> Callable[[], list[Any]]:
    """Returns what answers all questions; their shapes are OpenVINO's own already."""
    asked = [(_make_shape(question.data), list(question.target)) for question in questions]
    return lambda: [_infer(data, target) for data, target in asked]


def check(questions: Sequence[ShapeQuestion], shapes: Sequence[Any]) -> None:
    """Checks that every answer admits the output of its instance.

    Raises:
        ValueError: one does not.
    """
    for question, shape in zip(questions, shapes, strict=True):
        if not shape.compatible(openvino.PartialShape(list(question.output))):
            message = f"OpenVINO answers {shape} to {question}"
            raise ValueError(message)


def _infer(data: Any, target: list[int]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    parameter = openvino.op.Parameter(openvino.Type.f32, data)
    constant = openvino.op.Constant(openvino.Type.i64, openvino.Shape([len(target)]), target)
    return opset1.reshape(parameter, constant, special_zero=True).output(0).get_partial_shape()


def _make_shape(dims: Sequence[DimLike]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    shape = []
    for dim in dims:
        if isinstance(dim, tuple):
            low, high = dim
            shape.append(openvino.Dimension(low, _UNBOUNDED if high is None else high))
        else:
            shape.append(openvino.Dimension(dim if isinstance(dim, int) else _UNBOUNDED))
            if isinstance(dim, str):
                shape[-1].set_symbol(openvino.Symbol())
    return openvino.PartialShape(shape)
