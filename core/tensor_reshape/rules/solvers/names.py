"""Expressions of output dims: the equation solved for one variable, if all others have names."""

from collections.abc import Container, Iterable

from tensor_reshape.rules.dims import Expression, Symbol, make_legal_expression
from tensor_reshape.rules.solvers.equations import Equation, System


def solve_for(key: int, system: System, equation: Equation, zeros: Container[int]) -> Expression | None:
    """Returns the expression of a variable of the right side in terms of symbols; None if there is none.

    Lemma: solve-for-a-name.

    Args:
        key: the variable.
        system: the variables and their symbols.
        equation: the equation, which holds for all instances except for cancelled factors.
        zeros: the variables that may be 0; never divide by them.
    """
    # A square has no root that is an expression. A cancelled factor may be 0 on both sides, and then the variable can
    # have any value.
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
