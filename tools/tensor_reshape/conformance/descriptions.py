"""Describes queries and answers of the conformance suite in words, for the readers of a report."""

import json
from collections.abc import Mapping, Sequence

from tensor_reshape.conformance.conditions import InvalidConditionError, read_conditions
from tensor_reshape.rules.json_format import Json

_MAX_CHARACTERS = 400


def describe_query(query: Json) -> str:
    """Returns a query in one line: `reshape of [2, 3] to [0, -1], special_zero true`."""
    parts = [f"{query.get('operation')} of {describe_shape(query.get('data'))} to {describe_shape(query.get('shape'))}"]
    if "special_zero" in query:
        parts.append(f"special_zero {str(query['special_zero']).lower()}")
    if query.get("expected") is not None:
        parts.append(f"expected {describe_shape(query['expected'])}")
    parts += [
        f"{key} {_shorten(query[key])}" for key in ("strides", "data_type", "bytes") if query.get(key) is not None
    ]
    return ", ".join(parts)


def describe_answer(answer: Json | None) -> str:
    """Returns an answer in one line, such as `[2, N (1..8)]` or a rejection. "-" without an answer."""
    if answer is None:
        return "-"
    if "unsupported" in answer:
        return f"not supported: {_shorten(answer['unsupported'])}"
    if "error" in answer:
        error = answer["error"] if isinstance(answer["error"], Mapping) else {}
        details = " ".join(_shorten(error[key]) for key in ("reason", "field", "message") if error.get(key))
        return f"rejected: {details}" if details else "rejected"
    if "shape" not in answer:
        return _shorten(answer)
    parts = [describe_shape(answer["shape"])]
    if isinstance(answer.get("conditions"), Sequence):
        parts.append(f"conditions {_shorten([_describe_condition(one) for one in answer['conditions']])}")
    if answer.get("bytes") is not None:
        parts.append(f"bytes {_shorten(answer['bytes'])}")
    return ", ".join(parts)


def _describe_condition(record: object) -> object:
    """Returns a condition as text. A record that is not valid stays as it is."""
    try:
        return str(read_conditions([record])[0])
    except InvalidConditionError:
        return record


def describe_shape(dims: object) -> str:
    """Returns a shape in the usual notation, such as `[2, ?, 1..8, N]`.

    The text is `[...]` if the rank of the shape is unknown.
    """
    if dims is None:
        return "[...]"
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        return _shorten(dims)
    return _cut(f"[{', '.join(map(_describe_dim, dims))}]")


def _describe_dim(dim: object) -> str:
    if dim is None:
        return "?"
    if isinstance(dim, Mapping):
        bounds, name = _describe_bounds(dim.get("min"), dim.get("max")), dim.get("name")
        return bounds if name is None else _shorten(name) if bounds == "0.." else f"{_shorten(name)} ({bounds})"
    if isinstance(dim, list) and len(dim) == 2:  # noqa: PLR2004 - a pair
        return _describe_bounds(*dim)
    return _shorten(dim)


def _describe_bounds(low: object, high: object) -> str:
    return f"{0 if low is None else low}..{'' if high is None else high}"


def _shorten(value: object) -> str:
    return _cut(value if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
