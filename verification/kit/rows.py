"""Rows of cases that are written by hand, and the cases that they make.

A row is a name, the operations it is for, what is asked, the answer, and the sentence that decides it, with its source.
Dims are written as people write them: a number, None, (low, high), or text such as "N:1..8" and "4*C".
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim, Dim, Interval
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.records import Json, describe_dim

WrittenDim: TypeAlias = int | tuple[int, int | None] | str | None

STATIC, DYNAMIC, RESHAPE = "static_reshape", "dynamic_reshape", "reshape"
GRAPH, ALL = (STATIC, DYNAMIC), (STATIC, DYNAMIC, RESHAPE)
ONLY_RESHAPE = (RESHAPE,)
NOTHING: Mapping[str, Any] = {}


class Refused(NamedTuple):
    """An answer that is a refusal.

    Attributes:
        reason: the permanent one.
        item: the index of the item of the target to blame; None: another field.
        field: to blame; empty: that item.
    """

    reason: str
    item: int | None = None
    field: str = ""


class Row(NamedTuple):
    """One truth, for some operations.

    Attributes:
        name: unique within its rule.
        operations: that answer so.
        data: the data's dims; None: of unknown rank.
        shape: the target; None: of unknown length.
        special_zero: None: the question does not say.
        answer: the output's dims, None where its rank is unknown; or a refusal.
        because: the sentence that decides.
        expected: the output that is expected.
        more: other keys of the question: strides, data_type, bytes.
        told: other keys of the answer: view, bytes.
    """

    name: str
    operations: Sequence[str]
    data: Sequence[WrittenDim] | None
    shape: Sequence[WrittenDim] | None
    special_zero: bool | None
    answer: Sequence[WrittenDim] | Refused | None
    because: str
    expected: Sequence[WrittenDim] | None = None
    more: Mapping[str, Any] = NOTHING
    told: Mapping[str, Any] = NOTHING


def make_case(rule: str, row: Row) -> Json:
    """Returns the case that a row of a rule makes."""
    case: Json = {"id": f"{rule}/{row.name}", "rule": rule, "operations": list(row.operations)}
    case |= {"data": _write(row.data), "shape": _write(row.shape)}
    if row.special_zero is not None:
        case["special_zero"] = row.special_zero
    if row.expected is not None:
        case["expected"] = _write(row.expected)
    return {**case, **row.more, "answer": _write_answer(row), "because": row.because}


def _write(dims: Sequence[WrittenDim] | None) -> list[Any] | None:
    return None if dims is None else [list(dim) if isinstance(dim, tuple) else dim for dim in dims]


def _write_answer(row: Row) -> Json:
    if not isinstance(row.answer, Refused):
        dims = None if row.answer is None else [describe_dim(_read(dim)) for dim in row.answer]
        return {"shape": dims, **row.told}
    field = row.answer.field or f"shape[{row.answer.item}]"
    return {"error": {"reason": row.answer.reason, "field": field}}


def _read(dim: WrittenDim) -> AnyDim:
    if isinstance(dim, str):
        return parse_dim(dim)
    return Dim(Interval(*dim)) if isinstance(dim, tuple) else dim
