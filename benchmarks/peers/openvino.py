"""OpenVINO in this process: a Parameter, a Constant and a Reshape node for each question, validated as it is made."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import openvino
from openvino import opset1

from benchmarks.questions import make_questions
from benchmarks.sessions import Job, ThreadSession
from tensor_reshape.client import DimLike

_UNBOUNDED = -1


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Prepares the questions, whose shapes are OpenVINO's own before anything is timed; there is one variant."""
    del variant
    questions = make_questions(job.cell.load, job.cell.size)
    asked = [(_make_shape(question.data or ()), list(question.target)) for question in questions]

    def check(shapes: Sequence[Any]) -> None:
        for question, shape in zip(questions, shapes, strict=True):
            if not shape.compatible(openvino.PartialShape(list(question.output or ()))):
                message = f"OpenVINO answers {shape} to {question}"
                raise ValueError(message)

    return ThreadSession(job, stack, lambda: lambda: [_infer(data, target) for data, target in asked], check)


def _infer(data: Any, target: list[DimLike]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    parameter = openvino.op.Parameter(openvino.Type.f32, data)
    constant = openvino.op.Constant(openvino.Type.i64, openvino.Shape([len(target)]), target)
    return opset1.reshape(parameter, constant, special_zero=True).output(0).get_partial_shape()


def _make_shape(dims: Sequence[DimLike]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    return openvino.PartialShape([_make_dim(dim) for dim in dims])


def _make_dim(dim: DimLike) -> Any:  # noqa: ANN401 - OpenVINO has no types
    if isinstance(dim, tuple) and len(dim) == 2:
        low, high = dim
        return openvino.Dimension(low, _UNBOUNDED if high is None else high)
    made = openvino.Dimension(dim if isinstance(dim, int) else _UNBOUNDED)
    if isinstance(dim, str):
        made.set_symbol(openvino.Symbol())
    return made
