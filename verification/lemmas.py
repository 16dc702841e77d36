"""Proves every lemma of the solver, and prints a table of the proved, refuted and open claims.

- A lemma is a step of the solver. It is proved for all integers, of any size. Its claims are formulas over unbounded
  integers. A claim is valid if an SMT solver finds that no values make it false.
- A lemma about products of any number of factors is proved by induction. The claim of a step has one variable for the
  product of all earlier factors, so it holds for every number of them. A claim that lists its factors holds for this
  number only.
- A lemma names the functions that use it, and their docstrings name the lemma.
- A claim that the prover cannot decide in time is open, and does not count as proved. Such a lemma names the test that
  covers it.

The run passes if no claim is refuted, and every open claim is covered in another way.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import z3
from z3 import And, Exists, If, Implies, Int, Or

SECONDS = 20.0
"""The default time limit of the prover for one claim."""

Formula: TypeAlias = Any
"""A formula of z3, which has no types."""

Claims: TypeAlias = Iterator[tuple[str, Formula]]


class Verdict(Enum):
    PROVED = "proved"
    REFUTED = "refuted"
    OPEN = "open"


class Lemma(NamedTuple):
    """A step of the solver."""

    name: str  # the name that docstrings use
    statement: str  # the step in one sentence
    # the functions that use it: the module below `tensor_reshape.rules`, a colon, and the function's name
    used_by: tuple[str, ...]
    claim: Callable[[], Claims]  # yields the formulas of the lemma, each with a description
    covered_by: str = ""  # another check of the claims that may stay open; empty if none may


class Finding(NamedTuple):
    """The result of the prover for one claim."""

    lemma: Lemma  # the lemma of the claim
    claim: str  # the description of the claim
    verdict: Verdict  # the result of the prover
    counterexample: str = ""  # values that make the claim false, if it is refuted


def prove(lemma: Lemma, seconds: float = SECONDS) -> Iterator[Finding]:
    """Yields the result of the prover for each claim of a lemma."""
    for name, formula in lemma.claim():
        solver = z3.Solver()
        solver.set("timeout", round(seconds * 1000))
        solver.add(z3.Not(formula))
        result = solver.check()
        if result == z3.unsat:
            yield Finding(lemma, name, Verdict.PROVED)
        elif result == z3.sat:
            yield Finding(lemma, name, Verdict.REFUTED, _format_model(solver.model()))
        else:
            yield Finding(lemma, name, Verdict.OPEN)


def _format_model(model: Formula) -> str:
    return ", ".join(sorted(f"{name} = {model[name]}" for name in model))


def state(name: str, *used_by: str, covered_by: str = "") -> Callable[[Callable[[], Claims]], Lemma]:
    """Returns a decorator that makes a lemma from a function that yields its claims; its docstring is the statement."""

    def make(claim: Callable[[], Claims]) -> Lemma:
        return Lemma(name, " ".join((claim.__doc__ or "").split()), used_by, claim, covered_by)

    return make


def declare(names: str) -> list[Formula]:
    return list(z3.Ints(names))


def multiply(factors: list[Formula]) -> Formula:
    """Returns the product; 1 if there are no factors."""
    product: Formula = z3.IntVal(1)
    for factor in factors:
        product *= factor
    return product


@state("cancel-nonzero", "products:Product.cancel", "solvers.cases:_solve_nonempty")
def cancel_nonzero() -> Claims:
    """A nonzero factor of both sides cancels: the rests are equal exactly if both sides are equal."""
    a, x, y = declare("a x y")
    yield "one factor; any number follows by induction", Implies(a != 0, (a * x == a * y) == (x == y))


@state("cancel-divisor", "products:Product.cancel", "solvers.propagation:Side.divide")
def cancel_divisor() -> Claims:
    """Two constants may be divided by a common divisor."""
    g, a, b, x, y = declare("g a b x y")
    yield "any divisor", Implies(g >= 1, (g * a * x == g * b * y) == (a * x == b * y))


@state("cancel-unless-zero", "solvers.facts:Facts._cancel")
def cancel_unless_zero() -> Claims:
    """Two products with a common factor are equal if the factor is 0, or if the products are equal without it.

    The same holds for a divisibility whose divisor has the factor, and for any number of factors by induction.
    """
    a, x, y, k = declare("a x y k")
    yield "an equality", (a * x == a * y) == Or(a == 0, x == y)
    yield "a quotient", (a * x * k == a * y) == Or(a == 0, x * k == y)


@state("copies-leave", "targets:_find_cancelled", "solvers.cases:_solve_cancelled_zeros")
def copies_leave() -> Claims:
    """A copied dim that is not 0 cancels in the division of the -1: the quotient stays the same."""
    c, d, a, b, x = declare("c d a b x")
    yield "one copy; any number follows by induction", Implies(c >= 1, (c * a == c * b * x) == (a == b * x))
    yield "two copies at once", Implies(And(c >= 1, d >= 1), (c * d * a == c * d * b * x) == (a == b * x))


@state("cancelled-volumes", "solvers.single:solve_exactly", "solvers.single:solve_single")
def cancelled_volumes() -> Claims:
    """If the -1 is the quotient after copies are cancelled, the whole volumes are equal too, even if a copy is 0."""
    c, a, b, x = declare("c a b x")
    yield "any copies", Implies(a == b * x, c * a == c * b * x)


@state("multiply-out", "solvers.equations:System.equate")
def multiply_out() -> Claims:
    """A dim that is a fraction is a whole number, so its divisor can move to the other side of the equation."""
    a, b, dim, rest, other = declare("a b dim rest other")
    yield (
        "one fraction; any number follows by induction",
        Implies(And(b >= 1, a == b * dim), (dim * rest == other) == (a * rest == b * other)),
    )


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


def _is_floor(quotient: Formula, value: Formula, divisor: Formula) -> Formula:
    """Returns that the quotient is the greatest integer whose product with the divisor is at most the value."""
    return And(quotient * divisor <= value, value < quotient * divisor + divisor)


def _is_ceiling(quotient: Formula, value: Formula, divisor: Formula) -> Formula:
    """Returns that the quotient is the least integer whose product with the divisor is at least the value."""
    return And(quotient * divisor >= value, quotient * divisor - divisor < value)


@state("product-bounds", "solvers.propagation:_multiply", "solvers.propagation:Side.find_least")
def product_bounds() -> Claims:
    """A product of dims of at least 1 is between the products of all lower and of all upper ends, and reaches both."""
    low, p, high, least, x, most = declare("low p high least x most")
    yield (
        "one more factor; any number follows by induction",
        Implies(
            And(low >= 0, least >= 0, low <= p, p <= high, least <= x, x <= most),
            And(low * least <= p * x, p * x <= high * most),
        ),
    )


@state("clip-above", "solvers.propagation:_clip_side")
def clip_above() -> Claims:
    """A factor is at most the other product divided by the least product of the remaining factors, rounded down."""
    v, rest, other, least, ceiling, bound = declare("v rest other least ceiling bound")
    yield (
        "any rest",
        Implies(
            And(
                v >= 1, least >= 1, rest >= least, v * rest == other, other <= ceiling, _is_floor(bound, ceiling, least)
            ),
            v <= bound,
        ),
    )


@state("clip-below", "solvers.propagation:_clip_side")
def clip_below() -> Claims:
    """A factor is at least the other product divided by the greatest product of the remaining factors, rounded up."""
    v, rest, other, greatest, floor, bound = declare("v rest other greatest floor bound")
    yield (
        "any rest",
        Implies(
            And(
                v >= 1,
                rest >= 1,
                rest <= greatest,
                v * rest == other,
                other >= floor,
                _is_ceiling(bound, floor, greatest),
            ),
            v >= bound,
        ),
    )


@state(
    "step-by-the-other-constant",
    "solvers.propagation:_clip_side",
    "solvers.single:_divide",
    "solvers.equations:System._narrow_factor",
    "solvers.facts:Facts._divide",
)
def step_by_the_other_constant() -> Claims:
    """If two constants have no common divisor, each divides the other side's variable part: a*v = b*y, so v = b*k."""
    a, b, v, y, s, t = declare("a b v y s t")
    # By Bezout s*a + t*b = 1, so v = s*a*v + t*b*v = s*b*y + t*b*v.
    yield "Bezout, multiplied by v", Implies(And(s * a + t * b == 1, a * v == b * y), (s * a + t * b) * v == v)
    yield "the multiple", Implies(And(v * (s * a + t * b) == v, a * v == b * y), v == b * (s * y + t * v))


@state("whole-quotients", "solvers.single:_divide")
def whole_quotients() -> Claims:
    """The multiples of a number in a range are those of all multipliers between the quotients, rounded inwards."""
    b, k, low, high, least, most = declare("b k low high least most")
    yield "from below", Implies(And(b >= 1, _is_ceiling(least, low, b)), (low <= b * k) == (least <= k))
    yield "from above", Implies(And(b >= 1, _is_floor(most, high, b)), (b * k <= high) == (k <= most))


@state("split-a-constant", "solvers.splits:bound_quotient")
def split_a_constant() -> Claims:
    """A divisor of a product of two factors is a product of divisors of both: c*x = v*p has v = d*k, p = (c/d)*m."""
    c, d, rest, x, v, p, k, s, t = declare("c d rest x v p k s t")
    # With d = gcd(c, v), Bezout gives s*(c/d) + t*(v/d) = 1, so p is a multiple of c/d. Any number follows by
    # induction.
    yield (
        "the rest of the one divides the other",
        Implies(
            And(d >= 1, c == d * rest, v == d * k, s * rest + t * k == 1, rest * x == k * p),
            p == rest * (s * p + t * x),
        ),
    )
    yield (
        "the common divisor cancels on both sides",
        Implies(And(d >= 1, d * (rest * x) == d * (k * p)), rest * x == k * p),
    )
    yield "the quotient", Implies(And(d >= 1, rest >= 1, d * rest * x == d * k * (rest * p)), x == k * p)


@state("ends-of-two", "solvers.propagation:_narrow")
def ends_of_two() -> Claims:
    """If the ranges of a*v = b*y do not narrow each other, the lower ends are a solution, and so are the upper ends."""
    a, b, v, y = declare("a b v y")
    yield "lower ends", Implies(And(a >= 1, b >= 1, v * a >= b * y, y * b >= a * v), a * v == b * y)
    yield "upper ends", Implies(And(a >= 1, b >= 1, v * a <= b * y, y * b <= a * v), a * v == b * y)


@state("two-open-ends", "solvers.propagation:_is_solvable")
def two_open_ends() -> Claims:
    """If each side has an unbounded variable of power 1, the products can be equal for any values of the others."""
    left, right, low, least, k = declare("left right low least k")
    x, y = right * k, left * k
    yield (
        "a solution by a common multiple",
        Implies(
            And(left >= 1, right >= 1, low >= 1, least >= 1, k == If(low > least, low, least)),
            And(x >= low, y >= least, left * x == right * y),
        ),
    )


@state("one-side-divides", "solvers.propagation:_branch")
def one_side_divides() -> Claims:
    """If all variables are on one side, each divides the product of the two constants."""
    c, v, rest, d = declare("c v rest d")
    yield "the quotient", Implies(c * v * rest == d, c * d == v * (c * c * rest))


@state("reach-a-number", "solvers.propagation:_can_reach")
def reach_a_number() -> Claims:
    """A product equals a number only if its constant divides the number without a remainder."""
    value, constant, rest, quotient, remainder = declare("value constant rest quotient remainder")
    yield (
        "the remainder",
        Implies(
            And(
                value == constant * rest, value == constant * quotient + remainder, remainder >= 0, remainder < constant
            ),
            remainder == 0,
        ),
    )


@state("bound-a-fraction", "solvers.equations:System.bound_monomial")
def bound_a_fraction() -> Claims:
    """A fraction that is a whole number is between the quotients of the outer ends, rounded inwards."""
    x, above, below, low, high, least, most, lower, upper = declare("x above below low high least most lower upper")
    fraction = And(x >= 0, above == x * below, low <= above, above <= high, least >= 1, least <= below, below <= most)
    yield "from below", Implies(And(fraction, low >= 0, _is_ceiling(lower, low, most)), x >= lower)
    yield "from above", Implies(And(fraction, _is_floor(upper, high, least)), x <= upper)


@state("bound-the-only-symbol", "solvers.equations:System._narrow_factor")
def bound_the_only_symbol() -> Claims:
    """The bounds of a multiple or a fraction of one symbol bound the symbol: c*n/d from low to high."""
    n, c, d, x, low, high, least, most = declare("n c d x low high least most")
    whole = And(c >= 1, d >= 1, c * n == d * x, low <= x, x <= high)
    yield "from below", Implies(And(whole, _is_ceiling(least, low * d, c)), n >= least)
    yield "from above", Implies(And(whole, _is_floor(most, high * d, c)), n <= most)


@state("root-steps", "products:_take_root", covered_by="tests/rules/test_products.py")
def root_steps() -> Claims:
    """Newton's steps from above stop at the greatest integer whose power is at most the number."""
    n, x, q, step = declare("n x q step")
    # A square: the step is (x + n // x) // 2.
    square = And(n >= 1, x >= 1, _is_floor(q, n, x), 2 * step <= x + q, x + q < 2 * step + 2)
    yield "a square: no step goes below the root", Implies(square, (step + 1) * (step + 1) > n)
    yield ("a square: if a step does not go down, it is at the root", Implies(And(square, step >= x), x * x <= n))
    for power, what in ((3, "a cube"), (4, "a fourth power"), (5, "a fifth power")):
        down = And(
            n >= 1,
            x >= 1,
            _is_floor(q, n, multiply([x] * (power - 1))),
            power * step <= (power - 1) * x + q,
            (power - 1) * x + q < power * step + power,
        )
        yield f"{what}: no step goes below the root", Implies(down, multiply([step + 1] * power) > n)
        yield (
            f"{what}: if a step does not go down, it is at the root",
            Implies(And(down, step >= x), multiply([x] * power) <= n),
        )
    power = declare("power")[0]
    lower = (power - 1) * x + q < power * step + power
    yield (
        "any power: no step goes below the root",
        Implies(And(n >= 1, x >= 1, power >= 2, _is_floor(q, n, x ** (power - 1)), lower), (step + 1) ** power > n),
    )


@state("quotient-below-the-whole", "inference:_find_overflow")
def quotient_below_the_whole() -> Claims:
    """The -1 is at most the volume of which it is a factor."""
    a, b, x = declare("a b x")
    yield "any divisor", Implies(And(a == b * x, b >= 1, x >= 0), x <= a)


@state("solve-for-a-name", "solvers.cases:solve_for")
def solve_for_a_name() -> Claims:
    """A variable of power 1 is the other side divided by the other factors of its own side, if these are not 0."""
    key, other, below, name = declare("key other below name")
    yield (
        "the quotient, and only the quotient",
        Implies(And(below >= 1, below * name == other), (key * below == other) == (key == name)),
    )


@state("quotient-is-divisibility", "solvers.conditions:list_conditions", "solvers.facts:Facts._divide")
def quotient_is_divisibility() -> Claims:
    """A -1 exists exactly if its divisor is at least 1 and divides the dividend, and then it is the quotient."""
    v, d, x, y = declare("v d x y")
    yield "a quotient is exact", Implies(And(d >= 1, v == d * x, v == d * y), x == y)
    yield "no quotient without elements in the divisor", Implies(And(d == 0, v >= 1), v != d * x)
    for divisor in (1, 2, 3, 50176):
        yield f"a multiple of {divisor}", (v % divisor == 0) == Exists([x], v == divisor * x)


@state("divides-a-square", "solvers.facts:_find_step")
def divides_a_square() -> Claims:
    """A number divides a power of x exactly if the least number whose power is a multiple of it divides x.

    Of each prime, with exponent e in the number and f in x: power * f is at least e if f is at least e / power, rounded
    up. The least number has these exponents.
    """
    e, f = declare("e f")
    for power in (2, 3, 4, 64):
        least = If(e % power == 0, e / power, e / power + 1)
        yield f"power {power}", Implies(And(e >= 0, f >= 0), (power * f >= e) == (f >= least))


@state("product-of-zeros", "solvers.facts:Facts._vanish")
def product_of_zeros() -> Claims:
    """A product is 0 exactly if the product of its factors that may be 0 is 0."""
    a, x = declare("a x")
    yield "one factor that is not 0; by induction any number", Implies(a >= 1, (a * x == 0) == (x == 0))


@state("factors-of-elements", "solvers.facts:_list_positive")
def factors_of_elements() -> Claims:
    """If a product is at least 1, its factors and the factors of its divisors are at least 1."""
    x, y, k, a = declare("x y k a")
    yield "one factor; by induction any number", Implies(And(a >= 1, x >= 0, y >= 0, a == x * y), And(x >= 1, y >= 1))
    yield "a divisor", Implies(And(a >= 1, x >= 0, k >= 0, a == x * k), x >= 1)


@state("equal-to-a-multiple", "solvers.facts:_list_multiples")
def equal_to_a_multiple() -> Claims:
    """A product that is equal to a number times another product is a multiple of each divisor of the number."""
    x, y, a, d, q, k = declare("x y a d q k")
    yield "also with further factors k", Implies(And(a == d * q, x == a * y), x * k == d * (q * y * k))


LEMMAS = tuple(value for value in list(vars().values()) if isinstance(value, Lemma))
"""All lemmas, in the order of their definition."""


def main() -> int:
    """Runs the prover. The status is 1 if a lemma is refuted, or open and not covered."""
    parser = argparse.ArgumentParser("scripts/verify lemmas", description=__doc__)
    parser.add_argument("names", nargs="*", help="lemmas to prove; default: all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of the prover for one claim")
    arguments = parser.parse_args()
    chosen = [lemma for lemma in LEMMAS if not arguments.names or lemma.name in arguments.names]
    begin, findings = time.monotonic(), list[Finding]()
    for lemma in chosen:
        print(f"{lemma.name}: {lemma.statement} [{', '.join(lemma.used_by)}]", flush=True)
        for finding in prove(lemma, arguments.seconds):
            findings.append(finding)
            print(f"  {_describe(finding)}", flush=True)
    counts = ", ".join(f"{sum(one.verdict is verdict for one in findings)} {verdict.value}" for verdict in Verdict)
    print(f"{len(chosen)} lemmas, {len(findings)} claims: {counts}; {time.monotonic() - begin:.0f} s")
    return 0 if chosen and all(map(_is_fine, findings)) else 1


def _is_fine(finding: Finding) -> bool:
    is_covered = finding.verdict is Verdict.OPEN and bool(finding.lemma.covered_by)
    return finding.verdict is Verdict.PROVED or is_covered


def _describe(finding: Finding) -> str:
    line = f"{finding.verdict.value:8} {finding.claim}"
    if finding.verdict is Verdict.REFUTED:
        return f"{line}: {finding.counterexample}"
    if finding.verdict is Verdict.OPEN:
        return f"{line}: covered by {finding.lemma.covered_by or 'nothing'}"
    return line


if __name__ == "__main__":
    sys.exit(main())
