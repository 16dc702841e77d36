"""Integer roots of numbers of any size."""

_DIM_BITS = 64


def find_root(value: int, power: int) -> int:
    """Returns the largest integer whose power is at most `value`. If `power` is above 1, the result is at most 2^64.

    The limit is above every dim. It saves time, because numbers of thousands of digits take longer than a step.
    """
    if power > 1 and value.bit_length() > _DIM_BITS * power:
        return 1 << _DIM_BITS
    return _take_root(value, power)


def find_root_above(value: int, power: int) -> int:
    """Returns the smallest integer whose power is at least `value`."""
    root = find_root(value, power)
    return root if root**power >= value else root + 1


def find_exact_root(value: int, power: int) -> int | None:
    """Returns the integer whose power is `value`, or None if no integer has this power."""
    root = _take_root(value, power)
    return root if root**power == value else None


def _take_root(value: int, power: int) -> int:
    """Returns the largest integer whose power is at most `value`. Floats would be inexact above 2^53.

    Lemma: root-steps.
    """
    if power == 1 or value == 0:
        return value
    root = 1 << -(-value.bit_length() // power)  # Newton's method starts above the root
    while True:
        lower = ((power - 1) * root + value // root ** (power - 1)) // power
        if lower >= root:
            return root
        root = lower
