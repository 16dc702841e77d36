"""Finds the expression of an output dim by solving the equation for the variable of this dim."""

from collections.abc import Container, Iterable

from tensor_reshape.rules.dims import Expression, Symbol, make_legal_expression
from tensor_reshape.rules.solvers.equations import Equation, System


def solve_for(key: int, system: System, equation: Equation, zeros: Container[int]) -> Expression | None:
    """Solves the equation for a variable of the right side; None if other variables of the result have no names.

    Lemma: solve-for-a-name.

    Args:
        key: the variable.
        system: the variables and their symbols.
        equation: the cancelled equation. The equation holds for all instances in which the cancelled factors are not 0.
        zeros: the variables that may be 0. An expression must not divide by these variables.
    """
    # If the variable occurs twice in the product, the solution would be a square root, which is not an expression. If a
    # cancelled factor is 0, both sides are 0, and the variable can have any value.
    if equation.right.count(key) != 1 or any(variable in zeros for variable in equation.cancelled):
        return None
    divisors = [variable for variable in equation.right if variable != key]
    above, below = _name(system, equation.left), _name(system, divisors)
    if above is None or below is None or not (above or below) or any(variable in zeros for variable in divisors):
        return None
    return make_legal_expression(equation.constants[0], above, equation.constants[1], below)


def _name(system: System, variables: Iterable[int]) -> list[Symbol] | None:
    symbols = []
    for variable in variables:
        symbol = system.symbols.get(variable)
        if symbol is None:
            return None
        symbols.append(symbol)
    return symbols
