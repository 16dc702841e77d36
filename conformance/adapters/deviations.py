"""Libraries and their deviations, as `NAME.toml` tells of them.

A deviation of the file explains a difference if all that it says of it holds:

- `implementations`, `rules`, `verdicts`, `reasons` (of the kit's refusal): the difference has one of these.
- `other_than`: it has another verdict than this one.
- `known`: whether every dim and every item of its question is a number.
- `message`: a part of what the implementation says where it refuses.
- `when`: a function of this module, by its name.
"""

import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import Dim, Unknown, are_known, multiply_most

_LARGEST = 2**63 - 1
_EXACT = 2**53
"""Up to here every integer is a double."""
_MAX_DNNL_RANK = 12
_F32_BYTES = 4


def holds_always(_: Difference) -> bool:
    """Nothing more than the rest of the deviation says."""
    return True


def has_huge_product(one: Difference) -> bool:
    """Dims or items whose product, without those that are 0, is beyond 2^63."""
    return _multiply_most(one) > _LARGEST


def has_product_beyond_doubles(one: Difference) -> bool:
    """Dims or items whose product no double holds."""
    return _multiply_most(one) > _EXACT


def has_dim_below_two(one: Difference) -> bool:
    """A dim or an item that is not known, and may be 0 or 1."""
    return any(isinstance(dim, Unknown) and dim.min < 2 for dim in (*_data(one), *_items(one)))  # noqa: PLR2004


def has_negative_dim(one: Difference) -> bool:
    """A dim of the data that may be below 0."""
    return any((dim if isinstance(dim, int) else dim.min) < 0 for dim in _data(one))


def has_largest_number(one: Difference) -> bool:
    """A dim or an item of 2^63 - 1."""
    return _LARGEST in (*_data(one), *_items(one))


def has_name_with_operators(one: Difference) -> bool:
    """A dim of the data with a name such as "seq + past"."""
    return any("+" in (getattr(dim, "name", None) or "") for dim in _data(one))


def has_minus_one(one: Difference) -> bool:
    """An item of -1."""
    return -1 in _items(one)


def has_no_minus_one(one: Difference) -> bool:
    """No item of -1."""
    return -1 not in _items(one)


def has_minus_one_of_unknown_rank(one: Difference) -> bool:
    """An item of -1, and data of which not even the rank is known."""
    return one.question.data is None and has_minus_one(one)


def has_literal_zero(one: Difference) -> bool:
    """An item of 0 that copies nothing."""
    return one.question.special_zero is False and 0 in _items(one)


def has_copy(one: Difference) -> bool:
    """An item of 0 that copies."""
    return bool(one.question.special_zero) and 0 in _items(one)


def has_copied_zero(one: Difference) -> bool:
    """A -1 beside a copied dim of 0."""
    copied = [dim for dim, item in zip(_data(one), _items(one), strict=False) if item == 0]
    return one.question.special_zero is True and 0 in copied and has_minus_one(one)


def has_unknown_item(one: Difference) -> bool:
    """An item of which nothing is known."""
    return Unknown() in _items(one)


def has_unknown_item_or_length(one: Difference) -> bool:
    """An item of which nothing is known, or a target whose length is not known."""
    return one.question.shape is None or has_unknown_item(one)


def has_unknown_rank(one: Difference) -> bool:
    """Data or a target whose rank is not known."""
    return None in (one.question.data, one.question.shape)


def has_computed_target(one: Difference) -> bool:
    """A target with items that is no initializer of an ONNX model."""
    is_computed = one.question.operation == "dynamic_reshape" or not are_known(one.question.shape)
    return is_computed and bool(one.question.shape)


def has_empty_target(one: Difference) -> bool:
    """A target without items."""
    return one.question.shape == ()


def has_target_beyond_dnnl_rank(one: Difference) -> bool:
    """A target of more dims than a tensor of oneDNN has."""
    return len(_items(one)) > _MAX_DNNL_RANK


def wraps_at_64_bits(one: Difference) -> bool:
    """A volume that wraps, and is then said to be another one, or beside an empty one."""
    is_told = one.verdict in {"wrong_shape", "missing_error"}
    is_empty = prod(dim for dim in _data(one) if isinstance(dim, int)) == 0
    return (is_told or is_empty) and _count_most(one) > _LARGEST


def exceeds_memory(one: Difference) -> bool:
    """A tensor of f32 whose size in bytes has more than 64 bits."""
    return _count_most(one) * _F32_BYTES > _LARGEST


def answers_expression_for_number(one: Difference) -> bool:
    """A number of the target that is no number in the answer."""
    pairs = zip(_items(one), one.answer.get("shape") or (), strict=False)
    return any(isinstance(item, int) and item >= 0 and not isinstance(dim, int) for item, dim in pairs)


def answers_empty_interval(one: Difference) -> bool:
    """A dim of the answer that lies between nothing."""
    dims = one.answer.get("shape") or ()
    return any(isinstance(dim, dict) and dim.get("max") is not None and dim["min"] > dim["max"] for dim in dims)


def differs_only_in_names(one: Difference) -> bool:
    """An answer that has the right bounds and not the right names."""
    return _strip_names(one.answer.get("shape")) == _strip_names(one.right.get("shape"))


def differs_only_in_spare_bits(one: Difference) -> bool:
    """Bytes of packed elements of which only the last one differs."""
    right, have = (str(answer.get("bytes", "")) for answer in (one.right, one.answer))
    return one.question.data_type in {"u2", "u4", "i4", "f4e2m1"} and right[:-2] == have[:-2]


CONDITIONS: dict[str, Callable[[Difference], bool]] = {
    function.__name__: function
    for function in (
        holds_always,
        has_huge_product,
        has_product_beyond_doubles,
        has_dim_below_two,
        has_negative_dim,
        has_largest_number,
        has_name_with_operators,
        has_minus_one,
        has_no_minus_one,
        has_minus_one_of_unknown_rank,
        has_literal_zero,
        has_copy,
        has_copied_zero,
        has_unknown_item,
        has_unknown_item_or_length,
        has_unknown_rank,
        has_computed_target,
        has_empty_target,
        has_target_beyond_dnnl_rank,
        wraps_at_64_bits,
        exceeds_memory,
        answers_expression_for_number,
        answers_empty_interval,
        differs_only_in_names,
        differs_only_in_spare_bits,
    )
}


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


def _strip_names(dims: object) -> object:
    if not isinstance(dims, list):
        return dims
    bounds = [{"min": 0} if dim is None else {"min": dim, "max": dim} if isinstance(dim, int) else dim for dim in dims]
    return [(dim["min"], dim.get("max")) for dim in bounds]
