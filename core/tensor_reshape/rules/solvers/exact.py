"""Rules 3 and 4 in numbers: one division, or one comparison. All arithmetic is exact.

The products are those of the two sides of `targets.balance`, but its lists are not made: they would make the question
of an execution that has a -1 a quarter slower, or more.
"""

from math import prod

from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import KnownQuestion
from tensor_reshape.rules.refusals import refuse_overflow, refuse_remainder, refuse_volume, refuse_zero_volume
from tensor_reshape.rules.targets import Target


def solve_exactly(question: KnownQuestion, target: Target[int]) -> tuple[int, ...]:
    """Returns the output's dims.

    Lemma: cancelled-volumes.

    Raises:
        InvalidRequestError: MINUS_ONE_WITH_ZERO_VOLUME, NOT_DIVISIBLE, DIM_OVERFLOW or VOLUME_MISMATCH.
    """
    data, inferred, cancelled = question.data, target.inferred, target.cancelled
    want = target.product
    # Products of the whole sides, before anything is compared: they are the numbers that a refusal shows.
    if cancelled:
        have = prod([dim for index, dim in enumerate(data) if index not in cancelled])
    else:
        have = prod(data)
        for index in target.copied:  # the product that was read is that of the literals
            want *= data[index]
    if inferred is None:
        if have != want:
            raise refuse_volume(question, have, want)
        return tuple(target.dims)
    if want == 0:
        raise refuse_zero_volume(question, inferred)
    quotient, remainder = divmod(have, want)
    if remainder:
        raise refuse_remainder(question, inferred, have, want)
    if quotient > MAX_DIM:
        raise refuse_overflow(question, inferred, quotient)
    # Rule 4 holds: the divisor times the quotient is the dividend, and what was cancelled is on both sides.
    output = list(target.dims)
    output[inferred] = quotient
    return tuple(output)
