"""A plain reading of the rules for known shapes, written independently of the product.

Its rejections have no reason, so only the outputs and the fact of a rejection are compared.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, NoReturn

MAX_DIM = 2**63 - 1


class Question(NamedTuple):
    """A query whose shapes are known."""

    operation: str
    data: Sequence[int]
    shape: Sequence[int]
    special_zero: bool | None


class RejectionError(Exception):
    """The query is rejected."""


def reject() -> NoReturn:
    raise RejectionError


def _read_item(question: Question, index: int, item: int, before: Sequence[str]) -> str:
    """Returns the kind of an item."""
    if not -1 <= item <= MAX_DIM or (item == -1 and "infer" in before):
        reject()
    if item == -1:
        return "infer"
    if item or not question.special_zero:
        return "length"
    return "copy" if index < len(question.data) else reject()


def _divide(have: int, want: int) -> int:
    return reject() if want == 0 or have % want or have // want > MAX_DIM else have // want


def read(question: Question) -> list[int]:
    """Returns the output dimensions.

    Raises:
        RejectionError: the query is rejected.
    """
    max_rank = 12 if question.operation in {"OPERATION_STATIC_RESHAPE", "OPERATION_DYNAMIC_RESHAPE"} else 64
    if question.special_zero is None or max(len(question.data), len(question.shape)) > max_rank:
        reject()
    if not all(0 <= dim <= MAX_DIM for dim in question.data):
        reject()
    kinds = list[str]()
    for index, item in enumerate(question.shape):
        kinds.append(_read_item(question, index, item, kinds))
    output = [
        question.data[index] if kind == "copy" else item
        for index, (kind, item) in enumerate(zip(kinds, question.shape, strict=True))
    ]
    if "infer" in kinds:
        at = kinds.index("infer")
        # In the division of Reshape-1 the copies cancel on both sides, but not in those of the other operations.
        copies = {index for index, kind in enumerate(kinds) if kind == "copy"}
        cancelled = copies if question.operation == "OPERATION_RESHAPE" else set()
        have = prod(dim for index, dim in enumerate(question.data) if index not in cancelled)
        want = prod(dim for index, dim in enumerate(output) if index not in {at, *cancelled})
        output[at] = _divide(have, want)
    if prod(question.data) != prod(output):
        reject()
    return output
