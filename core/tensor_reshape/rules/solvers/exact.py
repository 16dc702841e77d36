"""Applies rules 3 and 4 to known shapes, with one division or one comparison of exact integers.

This module multiplies the same dims as `targets.balance`, but does not create lists of dims. With such lists, the query
of a reshape call with a -1 would take at least a quarter longer.
"""

from math import prod

from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import KnownQuestion
from tensor_reshape.rules.rejections import reject_overflow, reject_remainder, reject_volume, reject_zero_volume
from tensor_reshape.rules.targets import Target


def solve_exactly(question: KnownQuestion, target: Target[int]) -> tuple[int, ...]:
    """Returns the output dims of a query with known shapes.

    Lemma: cancelled-volumes.

    Raises:
        InvalidRequestError: MINUS_ONE_WITH_ZERO_VOLUME, NOT_DIVISIBLE, DIM_OVERFLOW or VOLUME_MISMATCH.
    """
    data, inferred, cancelled = question.data, target.inferred, target.cancelled
    want = target.product
    # `have` is the product of the data dims and `want` is the product of the requested items. A rejection shows both
    # products.
    if cancelled:
        have = prod([dim for index, dim in enumerate(data) if index not in cancelled])
    else:
        have = prod(data)
        # `target.product` contains only the literal items, so the copied dims are multiplied here.
        for index in target.copied:
            want *= data[index]
    if inferred is None:
        if have != want:
            raise reject_volume(question, have, want)
        return tuple(target.dims)
    if want == 0:
        raise reject_zero_volume(question, inferred)
    quotient, remainder = divmod(have, want)
    if remainder:
        raise reject_remainder(question, inferred, have, want)
    if quotient > MAX_DIM:
        raise reject_overflow(question, inferred, quotient)
    # Rule 4 holds without a further check. The output has as many elements as the data, because the divisor times the
    # quotient is the dividend, and the data and the output both contain the cancelled dims.
    output = list(target.dims)
    output[inferred] = quotient
    return tuple(output)
