"""Writes inferred shapes as JSON.

Invariants: names of dims are written in the notation of `rules.notation`. If a value is missing, the JSON object has no
key for it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from tensor_reshape.rules.conditions import Condition, write_product
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.questions import Origin, ShapeAnswer

Json: TypeAlias = dict[str, Any]


def describe_answer(answer: ShapeAnswer) -> Json:
    """Returns the result of a query as a JSON object."""
    record: Json = {"shape": describe_dims(answer.dims)}
    if answer.conditions:
        record["conditions"] = list(map(describe_condition, answer.conditions))
    if not answer.conditions_complete:
        record["conditions_complete"] = False
    if answer.origins:
        record["origins"] = list(map(_describe_origin, answer.origins))
    if answer.groups:
        record["groups"] = [{"data": list(group.data), "output": list(group.output)} for group in answer.groups]
    return record


def describe_dims(dims: Sequence[AnyDim] | None) -> list[int | Json | None] | None:
    """Returns a shape as a JSON list; null if the rank is unknown."""
    return None if dims is None else list(map(describe_dim, dims))


def describe_dim(dim: AnyDim) -> int | Json | None:
    """Returns a dim as JSON: a number, null for an unknown dim, or an object with bounds and a name."""
    if dim is None or isinstance(dim, int):
        return dim
    bounds: Json = {"min": dim.bounds.min, "max": dim.bounds.max}
    return bounds if dim.expression is None else {**bounds, "name": str(dim.expression)}


def describe_condition(condition: Condition) -> Json:
    """Returns a condition as a JSON object."""
    right, unless_zero = condition.right, condition.unless_zero
    record: Json = {"text": str(condition), "kind": condition.kind.value, "left": write_product(condition.left)}
    values = {
        "right": None if right is None else write_product(right),
        "min": condition.min,
        "max": condition.max,
        "unless_zero": None if unless_zero is None else write_product(unless_zero),
        "rule": condition.rule,
        "item": condition.item,
    }
    return record | {key: value for key, value in values.items() if value is not None}


def _describe_origin(origin: Origin) -> Json:
    record: Json = {"kind": origin.kind.value, "text": origin.text}
    if origin.data_index is not None:
        record["data_index"] = origin.data_index
    if origin.divisor:
        record.update(dividend=origin.dividend, divisor=origin.divisor)
    return record
