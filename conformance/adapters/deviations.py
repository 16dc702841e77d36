"""Libraries and their deviations, as `NAME.toml` tells of them.

A deviation of the file explains a difference if all that it says of it holds:

- `implementations`, `rules`, `verdicts`, `reasons` (of the kit's rejection): the difference has one of these.
- `other_than`: it has another verdict than this one.
- `known`: whether every dim and every item of its question is a number.
- `message`: a part of what the implementation says where it rejects.
- `when`: a condition of `CONDITIONS`, by its name.
"""

import tomllib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import Dim, Unknown, are_known, multiply_most, read_shape

_LARGEST = 2**63 - 1
_EXACT = 2**53
"""Up to here every integer is a double."""
_MAX_DNNL_RANK = 12
_F32_BYTES = 4


CONDITIONS: dict[str, Callable[[Difference], bool]] = {
    "holds_always": lambda _: True,
    # Products are of dims or of items, without those that are 0.
    "has_huge_product": lambda one: _multiply_most(one) > _LARGEST,
    "has_product_beyond_doubles": lambda one: _multiply_most(one) > _EXACT,
    "has_negative_dim": lambda one: any((dim if isinstance(dim, int) else dim.min) < 0 for dim in _data(one)),
    "has_largest_number": lambda one: _LARGEST in (*_data(one), *_items(one)),
    # Such as "seq + past".
    "has_name_with_operators": lambda one: any("+" in (getattr(dim, "name", None) or "") for dim in _data(one)),
    "has_minus_one": lambda one: -1 in _items(one),
    "has_no_minus_one": lambda one: -1 not in _items(one),
    "has_minus_one_of_unknown_rank": lambda one: one.question.data is None and -1 in _items(one),
    "has_literal_zero": lambda one: one.question.special_zero is False and 0 in _items(one),
    "has_copy": lambda one: bool(one.question.special_zero) and 0 in _items(one),
    "has_copied_zero": lambda one: (
        one.question.special_zero is True and -1 in _items(one) and (0, 0) in zip(_data(one), _items(one), strict=False)
    ),
    "has_unknown_item": lambda one: Unknown() in _items(one),
    "has_unknown_item_or_length": lambda one: one.question.shape is None or Unknown() in _items(one),
    "has_length_of_zero": lambda one: Unknown(0, 0) in _items(one),
    "has_unknown_rank": lambda one: None in (one.question.data, one.question.shape),
    # A target with items that is no initializer of an ONNX model.
    "has_computed_target": lambda one: (
        bool(one.question.shape) and (one.question.operation == "dynamic_reshape" or not are_known(one.question.shape))
    ),
    "has_empty_target": lambda one: one.question.shape == (),
    "has_target_beyond_dnnl_rank": lambda one: len(_items(one)) > _MAX_DNNL_RANK,
    # A volume that wraps, and is then said to be another one, or beside an empty one.
    "wraps_at_64_bits": lambda one: (
        (one.verdict in {"wrong_shape", "missing_error"} or 0 in _data(one)) and _count_most(one) > _LARGEST
    ),
    # A tensor of f32 whose size in bytes has more than 64 bits.
    "exceeds_memory": lambda one: _count_most(one) * _F32_BYTES > _LARGEST,
    # A dim of the answer that lies between nothing.
    "answers_empty_interval": lambda one: any(
        isinstance(dim, Unknown) and dim.max is not None and dim.min > dim.max for dim in _output(one.answer) or ()
    ),
    "differs_only_in_names": lambda one: _strip_names(one.answer) == _strip_names(one.right),
    # Of packed elements only the last byte differs.
    "differs_only_in_spare_bits": lambda one: (
        one.question.data_type in {"u2", "u4", "i4", "f4e2m1"}
        and _read_payload(one.right)[:-1] == _read_payload(one.answer)[:-1]
    ),
}
"""What a difference may be besides, by the name that `when` has."""


def read_library(path: Path) -> Library:
    """Returns the library of a file."""
    record = tomllib.loads(path.read_text(encoding="utf-8"))
    return Library(
        title=record["title"],
        distributions=record["distributions"],
        implementations=[Implementation(**one) for one in record["implementations"]],
        lacks=record["lacks"],
        deviations=[_read_deviation(one) for one in record.get("deviations", [])],
    )


def _read_deviation(record: dict[str, Any]) -> Deviation:
    told = {key: record.pop(key) for key in ("title", "why", "report") if key in record}
    matter, when = Matter(record.pop("matter")), CONDITIONS[record.pop("when", "holds_always")]
    return Deviation(**told, matter=matter, explains=partial(_explains, when=when, **record))


def _explains(  # noqa: PLR0913 - what a file may say
    one: Difference,
    *,
    when: Callable[[Difference], bool],
    implementations: Sequence[str] = (),
    rules: Sequence[str] = (),
    verdicts: Sequence[str] = (),
    reasons: Sequence[str] = (),
    other_than: str = "",
    known: bool | None = None,
    message: str = "",
) -> bool:
    lists = ((implementations, one.implementation), (rules, one.rule), (verdicts, one.verdict), (reasons, one.reason))
    return (
        all(not allowed or value in allowed for allowed, value in lists)
        and one.verdict != other_than
        and known in {None, one.question.is_known}
        and message in one.message
        and when(one)
    )


def _data(one: Difference) -> Sequence[Dim]:
    return one.question.data or ()


def _items(one: Difference) -> Sequence[Dim]:
    return one.question.shape or ()


def _multiply_most(one: Difference) -> int:
    return max(multiply_most(_data(one)), multiply_most(_items(one)))


def _count_most(one: Difference) -> int:
    """Returns the larger product of the known dims and of the items, without zeros and minus ones."""
    return max(prod(max(dim, 1) for dim in dims if isinstance(dim, int)) for dims in (_data(one), _items(one)))


def _output(answer: Mapping[str, Any]) -> Sequence[Dim] | None:
    """Returns the dims of an answer; None without a shape."""
    return read_shape(answer.get("output") or answer.get("answer", {}).get("shape"))


def _read_payload(answer: Mapping[str, Any]) -> bytes:
    return b64decode(answer.get("output", {}).get("data", ""))


def _strip_names(answer: Mapping[str, Any]) -> Sequence[Dim] | None:
    dims = _output(answer)
    return None if dims is None else [dim if isinstance(dim, int) else Unknown(dim.min, dim.max) for dim in dims]
