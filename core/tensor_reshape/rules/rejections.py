"""Creates the errors for an invalid requested shape, and compares a known output with the expected shape.

Each error about an item contains the invalid item, the whole target and the data shape.
"""

from collections.abc import Sequence

from tensor_reshape.rules.dims import AnyDim, Interval, find_bounds, find_symbol, format_dim, format_dims
from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion


def reject_zero_volume(question: AnyQuestion, index: int) -> InvalidRequestError:
    """Returns the error of an item that is -1, although the product of the other items is 0."""
    text = "it cannot be computed, because the product of the other items is 0"
    return reject_item(Reason.MINUS_ONE_WITH_ZERO_VOLUME, text, question, index)


def reject_remainder(question: AnyQuestion, index: int, dividend: object, divisor: object) -> InvalidRequestError:
    """Returns the error of a -1 whose division leaves a remainder for all values of the unknown dims."""
    shown = format_value(dividend), format_value(divisor)
    text = "{} elements are not divisible by {}, the product of the other items".format(*shown)
    return reject_item(Reason.NOT_DIVISIBLE, text, question, index, dividend=dividend, divisor=divisor)


def reject_overflow(question: AnyQuestion, index: int, dim: int) -> InvalidRequestError:
    """Returns the error of an inferred dim that exceeds the largest s64."""
    text = f"the inferred dimension {format_value(dim)} exceeds 2^63 - 1"
    return reject_item(Reason.DIM_OVERFLOW, text, question, index, dim=dim)


def reject_expression(field: str, index: int, dim: AnyDim, bounds: Interval) -> InvalidRequestError:
    """Returns the error of an expression that has no valid value.

    For all values of its symbols, such an expression is too large or outside its own bounds.
    """
    if bounds.min > MAX_DIM:
        low = format_value(bounds.min)
        message = f"{field} is {format_dim(dim)}, at least {low}; a dimension must be from 0 to 2^63 - 1"
        return InvalidRequestError.of(
            Reason.DIM_OUT_OF_RANGE, message, field, index=index, value=format_dim(dim), min=low
        )
    message = f"{field}, {format_dim(dim)}, has no possible value: its bounds give {bounds.min} to {bounds.max}"
    return InvalidRequestError.of(
        Reason.SYMBOL_CONFLICT, message, field, index=index, value=format_dim(dim), min=bounds.min, max=bounds.max
    )


def reject_volume(question: AnyQuestion, have: object, want: object) -> InvalidRequestError:
    """Returns the error of a target whose volume differs from the volume of the data."""
    data, shape = format_dims(question.data), format_dims(question.target)
    count = format_value(have)
    message = f"requested shape {shape} has {format_value(want)} elements, but input shape {data} has {count}"
    return InvalidRequestError.of(
        Reason.VOLUME_MISMATCH, message, "shape", data=data, shape=shape, have=have, want=want
    )


def reject_expected_rank(output: Sequence[AnyDim], expected: Sequence[AnyDim]) -> InvalidRequestError:
    """Returns the error of an expected shape whose rank differs from the rank of the output."""
    message = f"the output has rank {len(output)}; expected_shape has rank {len(expected)}"
    return InvalidRequestError.of(
        Reason.EXPECTED_SHAPE_MISMATCH, message, "expected_shape", have=format_dims(output), want_rank=len(expected)
    )


def reject_expected(index: int, have: AnyDim, want: AnyDim) -> InvalidRequestError:
    """Returns the error of an output dim that differs from the expected dim."""
    field = f"expected_shape.dims[{index}]"
    message = f"output dimension {index} is {format_dim(have)}; {field} is {format_dim(want)}"
    return InvalidRequestError.of(
        Reason.EXPECTED_SHAPE_MISMATCH, message, field, index=index, have=format_dim(have), want=format_dim(want)
    )


def reject_expected_volume(output: Sequence[AnyDim], expected: Sequence[AnyDim], have: object) -> InvalidRequestError:
    """Returns the error of expected dims that are possible separately, but not all together."""
    shown, asked, count = format_dims(output), format_dims(expected), format_value(have)
    message = f"the output is {shown}; expected_shape {asked} cannot have the {count} elements of the input"
    return InvalidRequestError.of(
        Reason.EXPECTED_SHAPE_MISMATCH, message, "expected_shape", have=shown, want=asked, volume=have
    )


def reject_item(reason: Reason, text: str, question: AnyQuestion, index: int, **values: object) -> InvalidRequestError:
    """Returns the error of an item of the requested shape."""
    field, value = f"shape[{index}]", format_dim((question.target or ())[index])
    data, shape = format_dims(question.data), format_dims(question.target)
    message = f"{field} is {value}: {text}; requested shape {shape}, input shape {data}"
    return InvalidRequestError.of(reason, message, field, index=index, value=value, shape=shape, data=data, **values)


def check_expected(output: Sequence[int], expected: Sequence[AnyDim]) -> None:
    """Checks that the output matches the expected shape.

    Raises:
        InvalidRequestError: the reason is EXPECTED_SHAPE_MISMATCH.
    """
    if len(expected) != len(output):
        raise reject_expected_rank(output, expected)
    named: dict[str, int] = {}  # for each name, the value of its first dim, because equal names have equal values
    for index, (have, want) in enumerate(zip(output, expected, strict=True)):
        symbol = find_symbol(want)
        is_within = find_bounds(want).holds(have) and (symbol is None or symbol.bounds.holds(have))
        if not is_within or (symbol is not None and named.setdefault(symbol.name, have) != have):
            raise reject_expected(index, have, want)
