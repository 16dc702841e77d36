"""Questions and answers of the kit in words, for people who read a report."""

import json
from collections.abc import Mapping, Sequence

from tensor_reshape.rules.json_format import Json

_MAX_CHARACTERS = 400


def write_question(question: Json) -> str:
    """Returns a question in a line: `reshape of [2, 3] to [0, -1], special_zero true`."""
    parts = [
        f"{question.get('operation')} of {write_shape(question.get('data'))} to {write_shape(question.get('shape'))}"
    ]
    if "special_zero" in question:
        parts.append(f"special_zero {str(question['special_zero']).lower()}")
    if question.get("expected") is not None:
        parts.append(f"expected {write_shape(question['expected'])}")
    parts += [
        f"{key} {_shorten(question[key])}" for key in ("strides", "data_type", "bytes") if question.get(key) is not None
    ]
    return ", ".join(parts)


def write_answer(answer: Json | None) -> str:
    """Returns an answer in a line: `[2, N (1..8)]`, or why there is no shape; "-" where there was no answer."""
    if answer is None:
        return "-"
    if "unsupported" in answer:
        return f"not offered: {_shorten(answer['unsupported'])}"
    if "error" in answer:
        error = answer["error"] if isinstance(answer["error"], Mapping) else {}
        told = " ".join(_shorten(error[key]) for key in ("reason", "field", "message") if error.get(key))
        return f"rejected: {told}" if told else "rejected"
    if "shape" not in answer:
        return _shorten(answer)
    view = answer.get("view")
    told = f", view {view.get('possibility')}" if isinstance(view, Mapping) else ""
    strides = f" {_shorten(view['strides'])}" if isinstance(view, Mapping) and view.get("strides") is not None else ""
    data = f", bytes {_shorten(answer['bytes'])}" if answer.get("bytes") is not None else ""
    return f"{write_shape(answer['shape'])}{told}{strides}{data}"


def write_shape(dims: object) -> str:
    """Returns a shape as people write it: `[2, ?, 1..8, N]`; `[...]` where its rank is unknown."""
    if dims is None:
        return "[...]"
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        return _shorten(dims)
    return _cut(f"[{', '.join(map(_write_dim, dims))}]")


def _write_dim(dim: object) -> str:
    if dim is None:
        return "?"
    if isinstance(dim, Mapping):
        bounds, name = _write_bounds(dim.get("min"), dim.get("max")), dim.get("name")
        return bounds if name is None else _shorten(name) if bounds == "0.." else f"{_shorten(name)} ({bounds})"
    if isinstance(dim, list) and len(dim) == 2:  # noqa: PLR2004 - a pair
        return _write_bounds(*dim)
    return _shorten(dim)


def _write_bounds(low: object, high: object) -> str:
    return f"{0 if low is None else low}..{'' if high is None else high}"


def _shorten(value: object) -> str:
    return _cut(value if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
