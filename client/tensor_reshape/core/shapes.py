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

from tensor_reshape.core.dtypes import DataType
from tensor_reshape.core.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.core.limits import DEFAULT_LIMITS, MAX_DIM, Limits
from tensor_reshape.core.operations import Operation, check_data_type, check_rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What decides an output shape: everything of a request but the elements.

    Attributes:
        operation: whose rules answer.
        data: the data's dims, Python integers (numpy's wrap).
        target: the target shape's items, Python integers.
        special_zero: None where the request does not say, which is an error.
        data_type: of the data; None where it is not to be checked.
        expected: the output dims that the caller counts on, None for an unknown one; None: nothing is declared.
    """

    operation: Operation
    data: Sequence[int]
    target: Sequence[int]
    special_zero: bool | None
    data_type: DataType | None = None
    expected: Sequence[int | None] | None = None


def infer_shape(question: Question, limits: Limits = DEFAULT_LIMITS) -> tuple[int, ...]:
    """Returns the output's dims.

    Raises:
        InvalidRequestError: the question is against a rule; the reason and the metadata tell which and where.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    _check_question(question, limits)
    output, copied, inferred = _walk_target(question)
    if inferred is not None:
        output[inferred] = _resolve_minus_one(question, output, copied, inferred)
    _check_volume(question, output)
    if question.expected is not None:
        _check_expected(output, question.expected)
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


def _check_question(question: Question, limits: Limits) -> None:
    if question.data_type is not None:
        check_data_type(question.operation, question.data_type)
    if question.special_zero is None:
        message = "special_zero is required and has no default"
        raise InvalidRequestError.of(Reason.SPECIAL_ZERO_MISSING, message, "special_zero")
    check_rank(question.operation, len(question.data), "data.dims", limits)
    check_rank(question.operation, len(question.target), "shape", limits)
    check_dims(question.data, "data.dims")


def _walk_target(question: Question) -> tuple[list[int], list[int], int | None]:
    """Returns the items with their copies substituted, where the copies are, and where the -1 is."""
    output = list(question.target)
    copied: list[int] = []
    inferred = None
    for index, value in enumerate(question.target):
        if not -1 <= value <= MAX_DIM:
            raise _refuse_value(question, index)
        if value == 0 and question.special_zero:
            if index >= len(question.data):
                raise _refuse_copy(question, index)
            output[index] = question.data[index]
            copied.append(index)
        elif value == -1:
            if inferred is not None:
                raise _refuse_second_minus_one(question, inferred, index)
            inferred = index
    return output, copied, inferred


def _resolve_minus_one(question: Question, output: list[int], copied: list[int], inferred: int) -> int:
    left, right = set(range(len(question.data))), set(range(len(output))) - {inferred}
    if question.operation.copies_cancel:
        left, right = left.difference(copied), right.difference(copied)
    dividend = prod(question.data[index] for index in left)
    divisor = prod(output[index] for index in right)
    if divisor == 0:
        raise _refuse_zero_volume(question, inferred)
    if dividend % divisor != 0:
        raise _refuse_remainder(question, inferred, dividend, divisor)
    if dividend // divisor > MAX_DIM:
        raise _refuse_overflow(question, inferred, dividend // divisor)
    return dividend // divisor


def _check_volume(question: Question, output: list[int]) -> None:
    have, want = prod(question.data), prod(output)
    if have != want:
        message = (
            f"shape {format_value(question.target)} asks for {format_value(want)} elements; "
            f"data of shape {format_value(question.data)} has {format_value(have)}"
        )
        raise InvalidRequestError.of(
            Reason.VOLUME_MISMATCH, message, "shape", data=question.data, shape=question.target, have=have, want=want
        )


def _check_expected(output: list[int], expected: Sequence[int | None]) -> None:
    if len(expected) != len(output):
        message = f"the output has rank {len(output)}; expected_shape has rank {len(expected)}"
        raise InvalidRequestError.of(
            Reason.EXPECTED_SHAPE_MISMATCH, message, "expected_shape", have=output, want_rank=len(expected)
        )
    for index, (have, want) in enumerate(zip(output, expected, strict=True)):
        if want is not None and want != have:
            field = f"expected_shape.dims[{index}]"
            message = f"the output dim {index} is {have}; {field} is {format_value(want)}"
            raise InvalidRequestError.of(
                Reason.EXPECTED_SHAPE_MISMATCH, message, field, index=index, have=have, want=want
            )


def _refuse(reason: Reason, text: str, question: Question, index: int, **values: object) -> InvalidRequestError:
    """The refusal of one target item: every one names the item, the whole target and the data."""
    field = f"shape[{index}]"
    value = question.target[index]
    shown = f"shape {format_value(question.target)}, data {format_value(question.data)}"
    message = f"{field} is {format_value(value)}: {text}; {shown}"
    return InvalidRequestError.of(
        reason, message, field, index=index, value=value, shape=question.target, data=question.data, **values
    )


def _refuse_value(question: Question, index: int) -> InvalidRequestError:
    text = "a target value lies from -1 to 2^63 - 1"
    return _refuse(Reason.INVALID_TARGET_VALUE, text, question, index)


def _refuse_copy(question: Question, index: int) -> InvalidRequestError:
    text = f"special_zero copies data dim {index}, but the data has rank {len(question.data)}"
    return _refuse(Reason.ZERO_INDEX_OUT_OF_RANGE, text, question, index, rank=len(question.data))


def _refuse_second_minus_one(question: Question, first: int, index: int) -> InvalidRequestError:
    text = f"only one dim can be inferred, and shape[{first}] is -1 already"
    return _refuse(Reason.MULTIPLE_MINUS_ONE, text, question, index, first=first)


def _refuse_zero_volume(question: Question, index: int) -> InvalidRequestError:
    text = "the other items have the product 0, so this dim cannot be inferred"
    return _refuse(Reason.MINUS_ONE_WITH_ZERO_VOLUME, text, question, index)


def _refuse_remainder(question: Question, index: int, dividend: int, divisor: int) -> InvalidRequestError:
    text = f"{format_value(dividend)} elements do not divide by {format_value(divisor)}, the product of the other items"
    return _refuse(Reason.NOT_DIVISIBLE, text, question, index, dividend=dividend, divisor=divisor)


def _refuse_overflow(question: Question, index: int, dim: int) -> InvalidRequestError:
    text = f"the inferred dim {format_value(dim)} exceeds 2^63 - 1"
    return _refuse(Reason.DIM_OVERFLOW, text, question, index, dim=dim)
