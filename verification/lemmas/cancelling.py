"""What leaves both sides of the equation of two volumes."""

from z3 import And, Implies, Or

from verification.lemmas.claims import Claims, declare, state


@state("cancel-nonzero", "solvers.equations:Equation.cancel", "solvers.cases:_solve_nonempty")
def cancel_nonzero() -> Claims:
    """What stands on both sides leaves both where it is not 0: the rest is equal exactly where both sides are."""
    a, x, y = declare("a x y")
    yield "one factor; by induction any number", Implies(a != 0, (a * x == a * y) == (x == y))


@state("cancel-divisor", "solvers.equations:Equation.cancel", "solvers.propagation:Product.divide")
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
    """A copied dim that is not 0 leaves both sides of the -1's division: the quotient stays the same."""
    c, d, a, b, x = declare("c d a b x")
    yield "one copy; by induction any number", Implies(c >= 1, (c * a == c * b * x) == (a == b * x))
    yield "two copies at once", Implies(And(c >= 1, d >= 1), (c * d * a == c * d * b * x) == (a == b * x))


@state("cancelled-volumes", "solvers.exact:solve_exactly", "solvers.single:solve_single")
def cancelled_volumes() -> Claims:
    """Where the -1 is the quotient of what the copies leave, whole volumes are equal too, also where a copy is 0."""
    c, a, b, x = declare("c a b x")
    yield "any copies", Implies(a == b * x, c * a == c * b * x)


@state("multiply-out", "solvers.equations:System.equate")
def multiply_out() -> Claims:
    """A dim that is a fraction is a whole number, so its divisor goes to the other side: they are equal as before."""
    a, b, dim, rest, other = declare("a b dim rest other")
    yield (
        "one fraction; by induction any number",
        Implies(And(b >= 1, a == b * dim), (dim * rest == other) == (a * rest == b * other)),
    )
