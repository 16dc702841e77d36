"""Names of output dims: an equation solved for one of its unknowns, where all others have a name."""

from collections.abc import Container, Iterable
from typing import NamedTuple

from tensor_reshape.rules.dims import Expression, Symbol, make_legal_expression
from tensor_reshape.rules.models import Equation, Model


class Equality(NamedTuple):
    """Two terms that the answer shows to be the same dim, or the same product of dims.

    Attributes:
        left: of the data.
        right: of the output.
        unless_empty: whether it holds only where the tensor has elements.
    """

    left: Expression
    right: Expression
    unless_empty: bool


def solve_for(key: int, model: Model, equation: Equation, zeros: Container[int]) -> Expression | None:
    """Returns what an atom of the right side is in terms of the symbols, None where there is no such expression.

    Args:
        key: the atom.
        model: whose symbols they are.
        equation: holds for all instances, but for what has been cancelled.
        zeros: the atoms that may be 0: none of them must be divided by.
    """
    if equation.right.count(key) != 1 or any(atom in zeros for atom in equation.cancelled):
        return None
    divisors = [atom for atom in equation.right if atom != key]
    above, below = _name(model, equation.left), _name(model, divisors)
    if above is None or below is None or not (above or below) or any(atom in zeros for atom in divisors):
        return None
    return make_legal_expression(equation.constants[0], above, equation.constants[1], below)


def find_equality(model: Model, equation: Equation, zeros: Container[int]) -> Equality | None:
    """Returns what the equation says of the symbols alone, None where it says nothing, or has dims without a name."""
    left, right = _name(model, equation.left), _name(model, equation.right)
    if not left or not right:
        return None
    above, below = (
        make_legal_expression(equation.constants[0], left),
        make_legal_expression(equation.constants[1], right),
    )
    if above is None or below is None:
        return None
    return Equality(above, below, unless_empty=any(atom in zeros for atom in equation.cancelled))


def _name(model: Model, atoms: Iterable[int]) -> list[Symbol] | None:
    symbols = []
    for atom in atoms:
        symbol = model.symbols.get(atom)
        if symbol is None:
            return None
        symbols.append(symbol)
    return symbols
