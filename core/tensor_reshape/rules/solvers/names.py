"""Finds the expression of an output dim by solving the equation for the variable of this dim."""

from collections.abc import Container, Mapping

from tensor_reshape.rules.dims import Expression, Symbol, make_legal_expression
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.solvers.cases import Case


def solve_for(key: int, case: Case, zeros: Container[int]) -> Expression | None:
    """Solves the equation for a variable of the output; None if other variables of the result have no names.

    Lemma: solve-for-a-name.

    Args:
        key: the variable.
        case: the equation. It holds for all instances in which the cancelled factors are not 0.
        zeros: the variables that may be 0. An expression must not divide by these variables.
    """
    # If the variable occurs twice in the product, the solution would be a square root, which is not an expression. If a
    # cancelled factor is 0, both sides are 0, and the variable can have any value.
    equation = case.remainder
    if equation.divisors.count(key) != 1 or any(variable in zeros for variable in case.cancelled):
        return None
    divisors = tuple([variable for variable in equation.divisors if variable != key])
    if not (equation.factors or divisors) or any(variable in zeros for variable in divisors):
        return None
    return name_product(equation._replace(divisors=divisors), case.system.symbols)


def name_product(product: Product[int], symbols: Mapping[int, Symbol]) -> Expression | None:
    """Returns a product of variables with their names; None if a variable has no name, or a number is too large."""
    if not symbols.keys() >= {*product.factors, *product.divisors}:
        return None
    return make_legal_expression(*product.map_factors(symbols.__getitem__))
