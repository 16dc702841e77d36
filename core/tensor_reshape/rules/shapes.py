"""The shape rules, in the order in which the specifications' readers check them.

`rank` is the number of data dims and V their product (1 for a scalar). All arithmetic is exact.

1. data type, special_zero and ranks are admitted;
2. left to right, each target value is >= -1, a copy has a data dim to copy, -1 comes once;
3. -1 becomes V / P, P the product of all other items (Reshape-1: copied dims leave both sides first); P = 0 or a
   remainder is an error;
4. the volumes are equal;
5. the expected shape, where the caller declared one, holds.

Sources: StaticReshape-1 (oneDNN Graph), DynamicReshape-1 (oneAPI Graph), Reshape-1 (OpenVINO operation set 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from tensor_reshape.rules.dims import AnyDim, find_bounds, find_name
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_DIM, Limits
from tensor_reshape.rules.operations import Operation, check_data_type, check_rank
from tensor_reshape.rules.refusals import (
    Asked,
    refuse_copy,
    refuse_expected,
    refuse_expected_rank,
    refuse_overflow,
    refuse_remainder,
    refuse_second_minus_one,
    refuse_value,
    refuse_volume,
    refuse_zero_volume,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What decides an output shape: everything of a request but the elements.

    Attributes:
        operation: whose rules answer.
        data: the data's dims, Python integers (numpy's wrap).
        target: the target shape's items, Python integers.
        special_zero: None where the request does not say, which is an error.
        data_type: of the data; None where it is not to be checked.
        expected: the output dims that the caller counts on, known in part; None: nothing is declared.
    """

    operation: Operation
    data: Sequence[int]
    target: Sequence[int]
    special_zero: bool | None
    data_type: DataType | None = None
    expected: Sequence[AnyDim] | None = None


def infer_shape(question: Question, limits: Limits = DEFAULT_LIMITS) -> tuple[int, ...]:
    """Returns the output's dims.

    Raises:
        InvalidRequestError: the question is against a rule; the reason and the metadata tell which and where.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    check_admitted(question, limits)
    check_dims(question.data, "data.dims")
    output, copied, inferred = _walk_target(question)
    if inferred is not None:
        output[inferred] = _resolve_minus_one(question, output, copied, inferred)
    _check_volume(question, output)
    if question.expected is not None:
        check_expected(output, question.expected)
    return tuple(output)


def check_dims(dims: Sequence[int], field: str) -> Sequence[int]:
    """Returns `dims` where each lies from 0 to 2^63 - 1.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE.
    """
    for index, dim in enumerate(dims):
        if not 0 <= dim <= MAX_DIM:
            message = f"{field}[{index}] is {format_value(dim)}; a dim lies from 0 to 2^63 - 1"
            raise InvalidRequestError.of(Reason.DIM_OUT_OF_RANGE, message, f"{field}[{index}]", index=index, value=dim)
    return dims


def check_expected(output: Sequence[int], expected: Sequence[AnyDim]) -> None:
    """Checks that the output is what the caller counts on.

    Raises:
        InvalidRequestError: EXPECTED_SHAPE_MISMATCH.
    """
    if len(expected) != len(output):
        raise refuse_expected_rank(output, expected)
    named: dict[str, int] = {}
    for index, (have, want) in enumerate(zip(output, expected, strict=True)):
        name = find_name(want)
        if not find_bounds(want).holds(have) or (name is not None and named.setdefault(name, have) != have):
            raise refuse_expected(index, have, want)


class Admissible(Asked, Protocol):
    """What rule 1 looks at, besides the dims themselves."""

    @property
    def operation(self) -> Operation:
        """Whose rules answer."""

    @property
    def special_zero(self) -> bool | None:
        """None where the request does not say."""

    @property
    def data_type(self) -> DataType | None:
        """Of the data; None where it is not to be checked."""


def check_admitted(question: Admissible, limits: Limits) -> None:
    """Checks data type, special_zero and ranks; a rank that is unknown passes.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, SPECIAL_ZERO_MISSING or RANK_UNSUPPORTED.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    if question.data_type is not None:
        check_data_type(question.operation, question.data_type)
    if question.special_zero is None:
        message = "special_zero is required and has no default"
        raise InvalidRequestError.of(Reason.SPECIAL_ZERO_MISSING, message, "special_zero")
    if question.data is not None:
        check_rank(question.operation, len(question.data), "data.dims", limits)
    if question.target is not None:
        check_rank(question.operation, len(question.target), "shape", limits)


def _walk_target(question: Question) -> tuple[list[int], list[int], int | None]:
    """Returns the items with their copies substituted, where the copies are, and where the -1 is."""
    output = list(question.target)
    copied: list[int] = []
    inferred = None
    for index, value in enumerate(question.target):
        if not -1 <= value <= MAX_DIM:
            raise refuse_value(question, index)
        if value == 0 and question.special_zero:
            if index >= len(question.data):
                raise refuse_copy(question, index)
            output[index] = question.data[index]
            copied.append(index)
        elif value == -1:
            if inferred is not None:
                raise refuse_second_minus_one(question, inferred, index)
            inferred = index
    return output, copied, inferred


def _resolve_minus_one(question: Question, output: list[int], copied: list[int], inferred: int) -> int:
    left, right = set(range(len(question.data))), set(range(len(output))) - {inferred}
    if question.operation.copies_cancel:
        left, right = left.difference(copied), right.difference(copied)
    dividend = prod(question.data[index] for index in left)
    divisor = prod(output[index] for index in right)
    if divisor == 0:
        raise refuse_zero_volume(question, inferred)
    if dividend % divisor != 0:
        raise refuse_remainder(question, inferred, dividend, divisor)
    if dividend // divisor > MAX_DIM:
        raise refuse_overflow(question, inferred, dividend // divisor)
    return dividend // divisor


def _check_volume(question: Question, output: list[int]) -> None:
    have, want = prod(question.data), prod(output)
    if have != want:
        raise refuse_volume(question, have, want)
