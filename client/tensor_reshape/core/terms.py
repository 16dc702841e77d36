"""Names of output dims: an equation solved for one of its unknowns, where all others have a name."""

from collections import Counter
from collections.abc import Mapping
from math import gcd
from typing import NamedTuple

from tensor_reshape.core.dims import Symbol, Term, make_term
from tensor_reshape.core.models import Equation, Model


class Equality(NamedTuple):
    """Two terms that the answer shows to be the same dim, or the same product of dims.

    Attributes:
        left: of the data.
        right: of the output.
        unless_empty: whether it holds only where the tensor has elements.
    """

    left: Term
    right: Term
    unless_empty: bool


class Residue(NamedTuple):
    """What is left of an equation when what stands on both sides has been cancelled.

    Attributes:
        left: the atoms of the one side.
        right: those of the other.
        constants: of both, without a common divisor.
        cancelled: the atoms that were.
    """

    left: Counter[int]
    right: Counter[int]
    constants: tuple[int, int]
    cancelled: Counter[int]


def cancel(equation: Equation) -> Residue:
    """Takes away what stands on both sides."""
    common = equation.left & equation.right
    divisor = gcd(*equation.constants)
    left, right = equation.constants
    return Residue(equation.left - common, equation.right - common, (left // divisor, right // divisor), common)


def solve_for(key: int, model: Model, residue: Residue, zeros: Mapping[int, bool]) -> Term | None:
    """Returns what an atom of the right side is in terms of the symbols, None where there is no such term.

    Args:
        key: the atom.
        model: whose symbols they are.
        residue: of the equation that holds.
        zeros: which atoms may be 0: whatever is divided by must not.
    """
    divisors = residue.right - Counter([key])
    if residue.right[key] != 1 or any(zeros.get(atom, True) for atom in (*divisors, *residue.cancelled)):
        return None
    above, below = _name(model, residue.left), _name(model, divisors)
    if above is None or below is None or not (above or below):
        return None
    return make_term(residue.constants[0], above, residue.constants[1], below)


def find_equality(model: Model, residue: Residue, zeros: Mapping[int, bool]) -> Equality | None:
    """Returns what the equation says of the symbols alone, None where it says nothing, or has dims without a name."""
    left, right = _name(model, residue.left), _name(model, residue.right)
    if not left or not right:
        return None
    unless_empty = any(zeros.get(atom, True) for atom in residue.cancelled)
    return Equality(make_term(residue.constants[0], left), make_term(residue.constants[1], right), unless_empty)


def _name(model: Model, atoms: Counter[int]) -> list[Symbol] | None:
    symbols = [model.symbols.get(atom) for atom in atoms.elements()]
    return None if None in symbols else [symbol for symbol in symbols if symbol is not None]
