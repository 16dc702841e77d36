"""What output dims are called: an equation solved for one of its variables, where all others have a name."""

from collections.abc import Container, Iterable

from tensor_reshape.rules.dims import Expression, Symbol, make_legal_expression
from tensor_reshape.rules.questions import Equality
from tensor_reshape.rules.solvers.equations import Equation, System


def solve_for(key: int, system: System, equation: Equation, zeros: Container[int]) -> Expression | None:
    """Returns what a variable of the right side is in terms of the symbols, None where there is no such expression.

    Lemma: solve-for-a-name.

    Args:
        key: the variable.
        system: whose symbols they are.
        equation: holds for all instances, but for what has been cancelled.
        zeros: the variables that may be 0: none of them must be divided by.
    """
    # A square has no root among expressions, and what has been cancelled might have been 0 on both sides: then the
    # variable is anything, and no expression is it.
    if equation.right.count(key) != 1 or any(variable in zeros for variable in equation.cancelled):
        return None
    divisors = [variable for variable in equation.right if variable != key]
    above, below = _name(system, equation.left), _name(system, divisors)
    if above is None or below is None or not (above or below) or any(variable in zeros for variable in divisors):
        return None
    return make_legal_expression(equation.constants[0], above, equation.constants[1], below)


def find_equality(system: System, equation: Equation, zeros: Container[int]) -> Equality | None:
    """Returns what the equation says of the symbols alone, None where it says nothing, or has dims without a name.

    Lemma: cancel-unless-empty.
    """
    left, right = _name(system, equation.left), _name(system, equation.right)
    if not left or not right:
        return None
    above, below = (
        make_legal_expression(equation.constants[0], left),
        make_legal_expression(equation.constants[1], right),
    )
    if above is None or below is None:
        return None
    return Equality(above, below, unless_empty=any(variable in zeros for variable in equation.cancelled))


def _name(system: System, variables: Iterable[int]) -> list[Symbol] | None:
    symbols = []
    for variable in variables:
        symbol = system.symbols.get(variable)
        if symbol is None:
            return None
        symbols.append(symbol)
    return symbols
