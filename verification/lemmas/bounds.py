"""Bounds of ranges after a division, after a divisibility condition, and at ends that a solution reaches."""

from z3 import And, If, Implies

from verification.lemmas.claims import Claims, Formula, declare, multiply, state


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
                value == constant * rest,
                value == constant * quotient + remainder,
                remainder >= 0,
                remainder < constant,
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
    yield (
        "a square: if a step does not go down, it is at the root",
        Implies(And(square, step >= x), x * x <= n),
    )
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
