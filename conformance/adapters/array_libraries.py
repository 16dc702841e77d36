"""What libraries of arrays have in common: one reshape of their own, which has a -1 and no copies.

- They are asked as Reshape-1 alone. Without a copy the three operations differ in nothing but the types and the ranks
  that they admit, which are limits of their own.
- special_zero is not to be had: a question that says it is asked where no item may be a 0.
- A name that is not a product is one symbol, whatever it is made of.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.adapters.programs import Rejected, Unsupported
from conformance.adapters.questions import Dim, Question, Unknown

LARGEST_DIM = 2**63 - 1
_KINDS = (("i", "int", (8, 16, 32, 64)), ("u", "uint", (8, 16, 32, 64)), ("f", "float", (16, 32, 64)))
_PRODUCT = re.compile(r"\w+(\^\d+)?( *\* *\w+(\^\d+)?)*")


def check_is_offered(question: Question) -> None:
    """Raises Unsupported where a library of arrays has nothing to ask."""
    if question.operation != "reshape":
        raise Unsupported("It has one reshape, which is asked as Reshape-1.")
    if question.special_zero is None or (question.special_zero and _may_copy(question.shape)):
        raise Unsupported("It has no special_zero.")
    if question.expected is not None:
        raise Unsupported("No output shape can be expected of its reshape.")


def list_types(find: Callable[[str], Any]) -> dict[str, Any]:
    """Returns what a library calls the element types that all of them have, by what it finds for numpy's names."""
    names = {"boolean": "bool"} | {f"{kind}{bits}": f"{name}{bits}" for kind, name, sizes in _KINDS for bits in sizes}
    return {key: find(name) for key, name in names.items()}


def check_type(question: Question, types: Mapping[str, Any]) -> None:
    """Raises Unsupported where a library lacks the element type of a question."""
    if question.data_type not in {None, *types}:
        raise Unsupported("It has no such element.")


def read_line(error: BaseException) -> str:
    """Returns the first line of what an exception says."""
    return str(error).split("\n", 1)[0]


def read_known(dims: Sequence[Dim] | None) -> tuple[int, ...]:
    """Returns dims or items, or raises Unsupported where they are not all numbers."""
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        raise Unsupported("Its shapes are known.")
    return tuple(dim for dim in dims if isinstance(dim, int))


def find_span(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements lie from the first one to the last one of an array with these strides."""
    if 0 in dims:
        return 0
    return 1 + sum((dim - 1) * abs(stride) for dim, stride in zip(dims, strides, strict=False))


def reject_data(dims: Iterable[int], message: str) -> Exception:
    """Returns what is to be raised where an array cannot be made: a dim is none, or there is no memory for so many."""
    if all(0 <= dim <= LARGEST_DIM for dim in dims):
        return Unsupported("It cannot make an array of that size.")
    return Rejected(message)


def _may_copy(items: Sequence[Dim] | None) -> bool:
    return items is None or 0 in items or Unknown() in items


@dataclass(frozen=True, slots=True)
class Monomial:
    """A product of symbols.

    Attributes:
        factor: its number.
        powers: of each symbol.
    """

    factor: int
    powers: Mapping[str, int]

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Returns its value where its symbols have these."""
        return self.factor * math.prod(values[symbol] ** power for symbol, power in self.powers.items())


@dataclass(slots=True)
class Symbols:
    """The symbols of a question.

    Attributes:
        bounds: of each; the second is None where nothing bounds it.
        names: as the question has them; a symbol that stands for a dim without a name has none here.
    """

    bounds: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def read(self, dims: Sequence[Dim] | None) -> list[int | Monomial]:
        """Returns dims with each unknown one as a product of symbols, or raises Unsupported where it is none."""
        if dims is None:
            raise Unsupported("Its shapes have a rank.")
        return [dim if isinstance(dim, int) else self._read_unknown(dim) for dim in dims]

    def find_bounds(self, monomial: Monomial) -> tuple[int, int | None]:
        """Returns what a product lies between: it grows with each of its symbols."""
        low = monomial.evaluate({symbol: low for symbol, (low, _) in self.bounds.items()})
        highs = {symbol: high for symbol, (_, high) in self.bounds.items() if symbol in monomial.powers}
        known = {symbol: high for symbol, high in highs.items() if high is not None}
        if 0 in known.values():
            return low, 0
        return low, monomial.evaluate(known) if len(known) == len(highs) else None

    def write(self, monomial: Monomial) -> Dim:
        """Returns a product as a dim; it has a name where each of its symbols has one."""
        low, high = self.find_bounds(monomial)
        return low if low == high else Unknown(low, high, self._find_name(monomial))

    def _find_name(self, monomial: Monomial) -> str | None:
        if not all(symbol in self.names for symbol in monomial.powers):
            return None
        factors = [] if monomial.factor == 1 else [str(monomial.factor)]
        powers = {self.names[symbol]: power for symbol, power in monomial.powers.items()}
        is_alone = (factors, list(powers.values())) == ([], [1])
        for name, power in sorted(powers.items()):
            whole = name if is_alone or name.isidentifier() else f"({name})"
            factors.append(whole + (f"^{power}" if power > 1 else ""))
        return "*".join(factors)

    def _read_unknown(self, dim: Unknown) -> Monomial:
        if dim.name is None or not _PRODUCT.fullmatch(dim.name):
            if dim.name is not None and "/" in dim.name:
                raise Unsupported("Its symbols are not divided without a remainder.")
            return Monomial(1, {self._add(dim.name, dim): 1})
        factor, powers = _read_product(dim.name)
        if (factor, list(powers.values())) == (1, [1]):
            return Monomial(1, {self._add(dim.name, dim): 1})
        if dim.min or dim.max is not None:
            raise Unsupported("The bounds of a product of symbols are not told.")
        return Monomial(factor, {self._add(name, Unknown()): power for name, power in powers.items()})

    def _add(self, name: str | None, dim: Unknown) -> str:
        """Returns the symbol of a name, or a new one; its bounds are all that is said of them."""
        known = [symbol for symbol, other in self.names.items() if other == name]
        symbol = known[0] if known else f"s{len(self.bounds)}"
        if name is not None:
            self.names[symbol] = name
        low, high = self.bounds.get(symbol, (0, None))
        highs = [each for each in (high, dim.max) if each is not None]
        self.bounds[symbol] = low, high = max(low, dim.min), min(highs) if highs else None
        if dim.min < 0 or (high is not None and not low <= high <= LARGEST_DIM):
            raise Unsupported("Bounds that no dim has are not told.")
        return symbol


def read_for_export(question: Question) -> tuple[Symbols, list[int | Monomial], list[int | Monomial]]:
    """Returns the symbols of a question that is asked of an exported function, and data and target in terms of them.

    Raises:
        Unsupported: the library has nothing to ask, or no function stands for the question.
    """
    check_is_offered(question)
    if question.payload is not None or question.strides is not None:
        raise Unsupported("It has no data.")
    symbols = Symbols()
    data, shape = symbols.read(question.data), symbols.read(question.shape)
    if Unknown() in (question.shape or ()):
        raise Unsupported("An item that may be an instruction is not told.")
    return symbols, data, shape


def _read_product(text: str) -> tuple[int, dict[str, int]]:
    factor, powers = 1, dict[str, int]()
    for part in text.replace(" ", "").split("*"):
        name, _, power = part.partition("^")
        if name.isdigit():
            factor *= int(name) ** int(power or 1)
        else:
            powers[name] = powers.get(name, 0) + int(power or 1)
    return factor, powers
