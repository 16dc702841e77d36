"""A partial question as two products of unknowns: the volume of the data, and that of the output.

What may vary is an atom: a symbol, or a dim without a name. Every place of data and target is a number times atoms.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.dims import ANY, AnyDim, Expression, Interval, Symbol, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import MAX_DIM

_POSITIVE = Interval(1, None)


class Kind(Enum):
    """Where a dim of the output comes from."""

    LITERAL = "literal"
    COPIED = "copied"
    INFERRED = "inferred"
    LENGTH = "length"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """One dim of the data or of the output: `constant * atoms / (divisor * divisors)`.

    Attributes:
        kind: where it comes from.
        dim: what was said of it.
        constant: the number in it.
        atoms: the keys of its atoms, one for each power.
        divisor: the number below.
        divisors: the keys of the atoms below.
        atom: the atom that the place is, None where it is more than one, or a number.
    """

    kind: Kind
    dim: AnyDim
    constant: int = 1
    atoms: tuple[int, ...] = ()
    divisor: int = 1
    divisors: tuple[int, ...] = ()
    atom: int | None = None


class Equation(NamedTuple):
    """Two products that are equal.

    Attributes:
        left: the atoms of the one, one for each power.
        right: those of the other.
        constants: the numbers in both.
        cancelled: the atoms that stood on both sides, and do so no more.
    """

    left: list[int]
    right: list[int]
    constants: tuple[int, int]
    cancelled: tuple[int, ...] = ()

    def cancel(self) -> "Equation":
        """Returns the equation without what stands on both sides; it says the same where that is not 0."""
        right, left, cancelled = Counter(self.right), [], []
        for atom in self.left:
            if right.get(atom, 0):
                right[atom] -= 1
                cancelled.append(atom)
            else:
                left.append(atom)
        divisor = gcd(*self.constants)
        constants = (self.constants[0] // divisor, self.constants[1] // divisor)
        return Equation(left, [*right.elements()], constants, tuple(cancelled))


@dataclass(slots=True)
class Model:
    """A question in atoms.

    Attributes:
        bounds: of each atom.
        symbols: of the atoms that have a name.
        data: the places of the data; of one of unknown rank, those that are copied.
        rest: the atom that stands for all other dims of data whose rank is unknown.
        target: the places of the output.
    """

    bounds: list[Interval] = field(default_factory=list)
    symbols: dict[int, Symbol] = field(default_factory=dict)
    data: dict[int, Place] = field(default_factory=dict)
    rest: int | None = None
    target: list[Place] = field(default_factory=list)
    _keys: dict[str, int] = field(default_factory=dict)

    def add_atom(self, bounds: Interval) -> int:
        """Returns the key of a new atom without a name, which is one dim."""
        self.bounds.append(bounds if bounds.max is not None else Interval(bounds.min, MAX_DIM))
        return len(self.bounds) - 1

    def add_rest(self) -> None:
        """Adds the atom for the rest of data whose rank is unknown: a product of dims, so larger than one may be."""
        self.bounds.append(ANY)
        self.rest = len(self.bounds) - 1

    def add_place(self, kind: Kind, dim: AnyDim) -> Place:
        """Returns the place of a dim."""
        if isinstance(dim, int) and dim:
            return Place(kind, dim, dim)
        if dim is None or isinstance(dim, int) or dim.expression is None:
            key = self.add_atom(find_bounds(dim))
            return Place(kind, dim, atoms=(key,), atom=key)
        expression = dim.expression
        atoms, divisors = self._name_atoms(expression.factors), self._name_atoms(expression.divisors)
        for symbol, atom in zip(expression.divisors, divisors, strict=True):
            self.narrow(atom, _POSITIVE, symbol.name)
        if expression.symbol is None:
            self._narrow_factor(expression, atoms, dim.bounds)
            return Place(kind, dim, expression.coefficient, atoms, expression.divisor, divisors)
        self.narrow(atoms[0], dim.bounds, expression.symbol.name)
        return Place(kind, dim, atoms=atoms, atom=atoms[0])

    def narrow(self, key: int, bounds: Interval, name: str) -> None:
        """Notes what else is known of an atom.

        Raises:
            InvalidRequestError: SYMBOL_CONFLICT, where nothing is left of it.
        """
        met = self.bounds[key].meet(bounds)
        if met.is_empty:
            message = f"{name} would have to lie from {met.min} to {met.max}, by what is said of it in several places"
            raise InvalidRequestError.of(Reason.SYMBOL_CONFLICT, message, "", symbol=name, min=met.min, max=met.max)
        self.bounds[key] = met

    def _narrow_factor(self, expression: Expression, atoms: tuple[int, ...], bounds: Interval) -> None:
        """Notes what an expression's bounds say of its only symbol; of a product of several, nothing is concluded."""
        if len(atoms) == 1 and not expression.divisors and bounds != ANY:
            low, high = bounds
            least = -(-low * expression.divisor // expression.coefficient)
            most = None if high is None else high * expression.divisor // expression.coefficient
            self.narrow(atoms[0], Interval(least, most), expression.factors[0].name)

    def find_bounds(self, place: Place, solution: Mapping[int, Interval] | None = None) -> Interval:
        """Returns what a place lies between: what is said of it, and what its atoms leave; empty where it is no dim.

        Args:
            place: of the data or of the output.
            solution: what is known of the atoms of the output; None: what the question says.
        """
        if place.atom is not None:
            return (self.bounds if solution is None else solution)[place.atom]
        low = high = place.constant
        for atom in place.atoms:
            bounds = (self.bounds if solution is None else solution)[atom]
            low, high = low * bounds.min, high * (MAX_DIM if bounds.max is None else bounds.max)
        least = most = place.divisor
        for atom in place.divisors:
            bounds = self.bounds[atom]
            least, most = least * bounds.min, most * (MAX_DIM if bounds.max is None else bounds.max)
        return find_bounds(place.dim).meet(Interval(-(-low // most), min(high // least, MAX_DIM)))

    def equate(self, data: Iterable[Place], target: Iterable[Place]) -> Equation:
        """Returns the equation of two volumes."""
        left, right = list[int](), list[int]()
        above = below = 1
        for place in data:
            above *= place.constant * self._list_unknown(place.atoms, left)
            below *= place.divisor * self._list_unknown(place.divisors, right)
        for place in target:
            below *= place.constant * self._list_unknown(place.atoms, right)
            above *= place.divisor * self._list_unknown(place.divisors, left)
        return Equation(left, right, (above, below))

    def can_be_zero(self, key: int) -> bool:
        """Whether an atom may be 0."""
        return self.bounds[key].min == 0

    def _list_unknown(self, atoms: tuple[int, ...], unknown: list[int]) -> int:
        """Adds the atoms to `unknown`, but for those that are a number; returns the product of these."""
        known = 1
        for atom in atoms:
            low, high = self.bounds[atom]
            if low and low == high:
                known *= low
            else:
                unknown.append(atom)
        return known

    def _name_atoms(self, symbols: Sequence[Symbol]) -> tuple[int, ...]:
        return tuple(self._name_atom(symbol) for symbol in symbols)

    def _name_atom(self, symbol: Symbol) -> int:
        key = self._keys.get(symbol.name)
        if key is None:
            key = self._keys[symbol.name] = self.add_atom(symbol.bounds)
            self.symbols[key] = symbol
        else:
            self.narrow(key, symbol.bounds, symbol.name)
        return key
