"""Factors that cancel in the equation of two volumes."""

from z3 import And, Implies, Or

from verification.lemmas.claims import Claims, declare, state


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
