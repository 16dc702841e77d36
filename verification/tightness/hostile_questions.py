"""Questions that nobody's model asks: ranks up to 12, and bounds up to 2^31.

Each is made of an instance: a volume of random factors, grouped to dims twice, or nearly; then what is known of a dim
is an interval around it, a name with bounds, or a product of names. Of one in five the target is of another volume.
"""

from collections.abc import Callable
from random import Random

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_dim, make_expression, name_dim
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

_LARGEST = 2**31
_MAX_RANK = 12
_OPERATIONS = (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE, RESHAPE)
_PRIMES = (2, 2, 2, 2, 3, 3, 5, 7, 11, 13, 31, 127, 251, 1009, 65537)
_Hide = Callable[[Random, int], AnyDim]


def choose_question(random: Random, kind: str) -> AnyQuestion:
    """Returns a random question of one of `KINDS`."""
    data, output = _choose_instance(random)
    hide = KINDS[kind]
    target = [_choose_item(random, data, output, index, hide) for index in range(len(output))]
    if random.random() < 0.6 and target:
        target[random.randrange(len(target))] = -1
    if kind == "unknown items":
        target = [None if random.random() < 0.3 else item for item in target]
    return Question(
        operation=random.choice(_OPERATIONS),
        data=None if kind == "unknown rank" else [_choose_dim(random, dim, hide) for dim in data],
        target=target,
        special_zero=random.random() < 0.5,
        expected=[_choose_dim(random, dim, hide) for dim in output] if kind == "expected" else None,
    )


def _choose_instance(random: Random) -> tuple[list[int], list[int]]:
    """Returns the dims of a tensor, and others, of the same volume as a rule, that no bound is above."""
    factors = [random.choice(_PRIMES) for _ in range(random.randint(1, 24))]
    data = _group(random, factors)
    if random.random() < 0.2:
        factors = [random.choice(_PRIMES) for _ in factors]
    return data, _group(random, factors)


def _group(random: Random, factors: list[int]) -> list[int]:
    dims = [1] * random.randint(1, _MAX_RANK)
    for factor in factors:
        index = random.randrange(len(dims))
        if dims[index] * factor <= _LARGEST:
            dims[index] *= factor
    return dims


def _choose_item(random: Random, data: list[int], output: list[int], index: int, hide: _Hide) -> AnyDim:
    if random.random() < 0.15 and index < len(data):
        output[index] = data[index]
        return 0
    return _choose_dim(random, output[index], hide)


def _choose_dim(random: Random, value: int, hide: _Hide) -> AnyDim:
    return value if random.random() < 0.35 else hide(random, value)


def _choose_bounds(random: Random, value: int) -> Interval:
    low = random.choice((0, 1, value, value - value // 2, random.randint(0, value), value >> random.randint(0, 31)))
    high = random.choice((value, 2 * value, value + random.randint(0, 9), random.randint(value, _LARGEST), _LARGEST))
    return Interval(low, min(max(high, low), _LARGEST))


def _hide_interval(random: Random, value: int) -> AnyDim:
    return make_dim(_choose_bounds(random, value))


def _hide_open(random: Random, value: int) -> AnyDim:
    low, high = _choose_bounds(random, value)
    return make_dim(Interval(low, None if random.random() < 0.5 else high))


def _hide_name(random: Random, value: int) -> AnyDim:
    return name_dim(random.choice("NMKLHW") + str(value.bit_length()), *_choose_bounds(random, value))


def _hide_product(random: Random, value: int) -> AnyDim:
    names = [Symbol(random.choice("NMKL"), Interval(random.choice((0, 1)), random.choice((None, 64, _LARGEST))))]
    names += [Symbol(name) for name in random.choices("NMKL", k=random.randint(0, 2))]
    low, high = _choose_bounds(random, value)
    known = Interval(min(low, 1), None) if random.random() < 0.5 else Interval(low, high)
    return Dim(known, make_expression(random.choice((1, 2, 4, 12, 64)), names, random.choice((1, 1, 1, 2))))


KINDS: dict[str, _Hide] = {
    "intervals": _hide_interval,
    "intervals, some without an end": _hide_open,
    "names": _hide_name,
    "products of names": _hide_product,
    "unknown items": _hide_interval,
    "unknown rank": _hide_interval,
    "expected": _hide_interval,
}
"""What is not known of a dim, by the name of the kind."""
