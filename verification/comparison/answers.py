"""The two answers to a question: this project's, and OpenVINO's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import openvino
from openvino import opset1

from tensor_reshape.rules.dims import AnyDim, Interval, find_bounds
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.questions import AnyQuestion

_UNBOUNDED = -1


class Answer(NamedTuple):
    """What is said of an output.

    Attributes:
        dims: what they lie between; None: not even the rank is known, or there is a refusal.
        refusal: why there is no output; None: there is one.
    """

    dims: tuple[Interval, ...] | None
    refusal: str | None = None

    def holds(self, output: tuple[int, ...]) -> bool:
        """Whether a concrete output is among what is said."""
        if self.dims is None:
            return self.refusal is None
        return len(self.dims) == len(output) and all(map(Interval.holds, self.dims, output))

    def is_within(self, other: "Answer") -> bool:
        """Whether each output that this answer admits is one that the other admits."""
        if self.refusal or other.refusal or other.dims is None:
            return self.refusal == other.refusal
        if self.dims is None or len(self.dims) != len(other.dims):
            return False
        return all(have.meet(want) == have for have, want in zip(self.dims, other.dims, strict=True))

    def __str__(self) -> str:
        """The answer as people write it."""
        if self.dims is None:
            return f"refused, {self.refusal}" if self.refusal else "[...]"
        return f"[{', '.join(map(_show, self.dims))}]"


def ask_ours(question: AnyQuestion) -> Answer:
    """Returns the answer of this project."""
    try:
        dims = infer(question).dims
    except ReshapeError as error:
        return Answer(None, error.reason)
    return Answer(None if dims is None else tuple(map(find_bounds, dims)))


def ask_theirs(question: AnyQuestion) -> Answer:
    """Returns the answer of OpenVINO: the output shape of a node that it has validated."""
    data = openvino.op.Parameter(openvino.Type.f32, make_shape(question.data))
    try:
        node = opset1.reshape(data, _make_target(question.target or ()), bool(question.special_zero))
        shape = node.output(0).get_partial_shape()
    except RuntimeError as error:
        return Answer(None, str(error).split("\n", 1)[0])
    return Answer(None if shape.rank.is_dynamic else tuple(map(_read_dim, shape)))


def make_shape(dims: Sequence[AnyDim] | None) -> Any:  # noqa: ANN401 - OpenVINO has no types
    """Returns a shape as OpenVINO takes it."""
    if dims is None:
        return openvino.PartialShape.dynamic()
    return openvino.PartialShape([_make_dim(dim) for dim in dims])


def _make_target(target: Sequence[AnyDim]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    """Returns a constant, or pieces of which those that are intervals are lengths of other data."""
    if all(isinstance(item, int) for item in target):
        return openvino.op.Constant(openvino.Type.i64, openvino.Shape([len(target)]), list(target))
    return opset1.concat([_make_item(item) for item in target], 0)


def _make_item(item: AnyDim) -> Any:  # noqa: ANN401 - OpenVINO has no types
    if isinstance(item, int):
        return openvino.op.Constant(openvino.Type.i64, openvino.Shape([1]), [item])
    return opset1.shape_of(openvino.op.Parameter(openvino.Type.f32, make_shape([item])))


def _make_dim(dim: AnyDim) -> Any:  # noqa: ANN401 - OpenVINO has no types
    low, high = find_bounds(dim)
    return openvino.Dimension(low, _UNBOUNDED if high is None else high)


def _read_dim(dim: Any) -> Interval:  # noqa: ANN401 - OpenVINO has no types
    high = dim.get_max_length()
    return Interval(dim.get_min_length(), None if high == _UNBOUNDED else high)


def _show(bounds: Interval) -> str:
    low, high = bounds
    return str(low) if low == high else "?" if bounds == (0, None) else f"{low}..{'' if high is None else high}"
