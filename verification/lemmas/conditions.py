"""Steps that bring a condition into its normal form."""

from z3 import And, Exists, If, Implies

from verification.lemmas.claims import Claims, declare, state


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
