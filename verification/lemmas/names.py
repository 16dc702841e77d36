"""The names of dimensions, and the offsets of the elements of a view."""

from z3 import And, Implies

from verification.lemmas.claims import Claims, declare, state


@state("solve-for-a-name", "solvers.names:solve_for")
def solve_for_a_name() -> Claims:
    """A variable of power 1 is the other side divided by the other factors of its own side, if these are not 0."""
    key, other, below, name = declare("key other below name")
    yield (
        "the quotient, and only the quotient",
        Implies(And(below >= 1, below * name == other), (key * below == other) == (key == name)),
    )


@state("runs-of-elements", "views:_list_runs")
def runs_of_elements() -> Claims:
    """Two dims are one contiguous run if the outer stride is the inner dim times the inner stride."""
    i, j, k, m, dim, inner, outer = declare("i j k m dim inner outer")
    yield "the same place", Implies(outer == dim * inner, i * outer + j * inner == (i * dim + j) * inner)
    yield (
        "each element once",
        Implies(And(j >= 0, j < dim, m >= 0, m < dim, i * dim + j == k * dim + m), And(i == k, j == m)),
    )


@state("parts-of-a-view", "views:_split")
def parts_of_a_view() -> Claims:
    """If the outer dims have the same product on both sides, the inner ones do too, provided there are elements."""
    outer, data, output = declare("outer data output")
    yield "both parts", Implies(outer >= 1, (outer * data == outer * output) == (data == output))
