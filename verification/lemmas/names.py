"""The names of dimensions."""

from z3 import And, Implies

from verification.lemmas.claims import Claims, declare, state


@state("solve-for-a-name", "solvers.cases:solve_for")
def solve_for_a_name() -> Claims:
    """A variable of power 1 is the other side divided by the other factors of its own side, if these are not 0."""
    key, other, below, name = declare("key other below name")
    yield (
        "the quotient, and only the quotient",
        Implies(And(below >= 1, below * name == other), (key * below == other) == (key == name)),
    )
