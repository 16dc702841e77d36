"""The cases with a dimension of 0: which cases exist, that they cover all instances, and how to join their ranges."""

from z3 import And, If, Implies, Int, Or

from verification.lemmas.claims import Claims, Formula, declare, multiply, state

_RANKS = range(1, 5)


def _list_dims(name: str, rank: int) -> list[Formula]:
    return [Int(f"{name}{index}") for index in range(rank)]


def _are_dims(dims: list[Formula]) -> Formula:
    return And([dim >= 0 for dim in dims])


@state("nonempty-dims", "solvers.cases:_solve_nonempty", "solvers.propagation:narrow_ranges")
def nonempty_dims() -> Claims:
    """A product of dims is at least 1 exactly if each of them is at least 1."""
    p, x = declare("p x")
    yield (
        "one more factor; any number follows by induction",
        Implies(And(p >= 0, x >= 0), (p * x >= 1) == And(p >= 1, x >= 1)),
    )


@state("empty-dims", "solvers.cases:_solve_empty")
def empty_dims() -> Claims:
    """A product of dims is 0 exactly if one of them is 0, whatever the others are."""
    p, x = declare("p x")
    yield "one more factor; any number follows by induction", (p * x == 0) == Or(p == 0, x == 0)


@state("two-cases", "solvers.cases:solve")
def two_cases() -> Claims:
    """Two volumes are equal if all dims are at least 1 and the rests are equal, or if each side has a 0; else not."""
    common = Int("common")
    for rank in _RANKS:
        left, right = _list_dims("n", rank), _list_dims("m", rank)
        dims = [common, *left, *right]
        equal = multiply([common, *left]) == multiply([common, *right])
        full = And([dim >= 1 for dim in dims] + [multiply(left) == multiply(right)])
        empty = And(Or([dim == 0 for dim in [common, *left]]), Or([dim == 0 for dim in [common, *right]]))
        yield f"rank {rank}, and one dim on both sides", Implies(_are_dims(dims), equal == Or(full, empty))


@state("quotient-of-elements", "solvers.cases:_solve_inferred", "solvers.single:_raise_copies")
def quotient_of_elements() -> Claims:
    """If the -1 is at least 1, all dims on both sides are at least 1. If the -1 exists, its divisor is at least 1."""
    a, b, x = declare("a b x")
    yield "both volumes", Implies(And(a == b * x, a >= 0, b >= 0, x >= 1, b != 0), And(a >= 1, b >= 1))
    p, dim = declare("p dim")
    yield (
        "one more divisor; any number follows by induction",
        Implies(And(p >= 0, dim >= 0, p * dim != 0), And(p >= 1, dim >= 1)),
    )


@state("inferred-zero", "solvers.cases:_solve_inferred_zero")
def inferred_zero() -> Claims:
    """The -1 is 0 exactly if the data has a 0 that is not in the divisor: a dim on both sides is in it and is not 0."""
    a, b, x, common = declare("a b x common")
    yield "the volumes", Implies(And(a == b * x, b >= 1), (x == 0) == (a == 0))
    yield (
        "a dim on both sides",
        Implies(And(common * a == common * b * x, common * b >= 1, common >= 0, x == 0), And(common >= 1, a == 0)),
    )


@state("nonzero-copy-is-a-length", "solvers.cases:_find_zero_copies")
def nonzero_copy_is_a_length() -> Claims:
    """An unknown item that copies a dim of at least 1 gives the same result as this dim: only 0 needs another case."""
    d, a, b, x = declare("d a b x")
    yield "with a -1, copies cancel", Implies(d >= 1, (a == b * x) == (d * a == d * b * x))


@state("join-holds-both", "solvers.equations:Range.join", "solvers.cases:_join_all")
def join_holds_both() -> Claims:
    """The join of two ranges contains both, and no narrower range contains both."""
    value, low, high, least, most, below, above = declare("value low high least most below above")
    join_low, join_high = If(low < least, low, least), If(high > most, high, most)
    either = Or(And(low <= value, value <= high), And(least <= value, value <= most))
    yield "sound", Implies(either, And(join_low <= value, value <= join_high))
    yield (
        "least",
        Implies(
            And(low <= high, least <= most, below <= low, below <= least, above >= high, above >= most),
            And(below <= join_low, join_high <= above),
        ),
    )


@state("meet-is-both", "solvers.equations:Range.meet")
def meet_is_both() -> Claims:
    """The meet of two ranges contains exactly the values that are in both."""
    value, low, high, least, most = declare("value low high least most")
    meet_low, meet_high = If(low > least, low, least), If(high < most, high, most)
    both = And(low <= value, value <= high, least <= value, value <= most)
    yield "any two", both == And(meet_low <= value, value <= meet_high)
