"""A question as equations of products over whole numbers, one system for each reading of its unknown items.

Written apart from the solvers of the product, and otherwise: every dim is a variable, a number is one of one value, an
expression is one with an equation of its own; a 0 is a number like any other, and nothing is cancelled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, Dim, find_bounds
from tensor_reshape.rules.limits import MAX_DIM, MAX_RANK
from tensor_reshape.rules.questions import AnyQuestion

OPEN = 1 << 400
"""Stands for no bound: more than any product of bounded dims that is asked about."""

_INFERRED, _COPY, _LENGTH = "inferred", "copy", "length"
Span = tuple[int, int]


class Relation(NamedTuple):
    """`above * left = below * right`, where the sides list variables, one for each power."""

    above: int
    left: tuple[int, ...]
    below: int
    right: tuple[int, ...]


@dataclass(slots=True)
class Reading:
    """One reading of a question.

    Attributes:
        spans: what each variable lies between, both ends included.
        relations: what holds between them; the first is that of the volumes.
        data: the variables of the data's dims.
        output: those of the output's.
        instructions: of each item: -1, 0 where it copies, or None for a length.
    """

    spans: list[Span] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    instructions: list[int | None] = field(default_factory=list)
    _names: dict[str, int] = field(default_factory=dict)
    _cap: int = MAX_DIM

    def add(self, low: int, high: int | None) -> int:
        """Returns a new variable."""
        self.spans.append((low, self._cap if high is None else high))
        return len(self.spans) - 1

    def meet(self, key: int, low: int, high: int | None) -> None:
        """Notes what else is known of a variable."""
        own = self.spans[key]
        self.spans[key] = (max(own[0], low), own[1] if high is None else min(own[1], high))

    def add_dim(self, dim: AnyDim) -> int:
        """Returns the variable of a dim."""
        bounds = find_bounds(dim)
        if not isinstance(dim, Dim) or dim.expression is None:
            return self.add(*bounds)
        expression = dim.expression
        factors = tuple(self._add_name(symbol.name, *symbol.bounds) for symbol in expression.factors)
        divisors = tuple(self._add_name(symbol.name, *symbol.bounds) for symbol in expression.divisors)
        if expression.symbol is not None:
            self.meet(factors[0], *bounds)
            return factors[0]
        for key in divisors:
            self.meet(key, 1, None)
        whole = self.add(*bounds)
        self.relations.append(Relation(expression.divisor, (whole, *divisors), expression.coefficient, factors))
        return whole

    def _add_name(self, name: str, low: int, high: int | None) -> int:
        if name not in self._names:
            self._names[name] = self.add(0, None)
        self.meet(self._names[name], low, high)
        return self._names[name]


def list_readings(question: AnyQuestion, cap: int = MAX_DIM) -> Iterator[Reading]:
    """Yields every reading of the unknown items that can have an instance; `cap` bounds what is open."""
    items = question.target if question.target is not None else [None] * len(question.expected or ())
    data = question.data
    if data is None:
        # One dim more than are copied stands for all others; a dim that is not there is a 1.
        data = [None] * min(len(items) + 1, question.operation.max_rank or MAX_RANK)
    choices = [_list_choices(question, item, index, len(data)) for index, item in enumerate(items)]
    for kinds in product(*choices):
        if kinds.count(_INFERRED) <= 1:
            yield _read(question, data, list(zip(items, kinds, strict=True)), cap)


def _list_choices(question: AnyQuestion, item: AnyDim, index: int, rank: int) -> Sequence[str]:
    if item is None:
        return (_LENGTH, _INFERRED, _COPY) if question.special_zero and index < rank else (_LENGTH, _INFERRED)
    if item == -1 and isinstance(item, int):
        return (_INFERRED,)
    return (_COPY,) if item == 0 and isinstance(item, int) and question.special_zero else (_LENGTH,)


def _read(question: AnyQuestion, data: Sequence[AnyDim], items: Sequence[tuple[AnyDim, str]], cap: int) -> Reading:
    reading = Reading(_cap=cap)
    reading.data = [reading.add_dim(dim) for dim in data]
    copied, inferred = list[int](), None
    for index, (item, kind) in enumerate(items):
        reading.instructions.append({_INFERRED: -1, _COPY: 0, _LENGTH: None}[kind])
        if kind == _COPY:
            copied.append(index)
            reading.output.append(reading.data[index])
        elif kind == _INFERRED:
            inferred = index
            reading.output.append(reading.add(0, None))
        else:
            # An unknown item that is 0 under special_zero is a copy, so as a length it is at least 1.
            low = 1 if item is None and question.special_zero else 0
            reading.output.append(reading.add_dim(item) if item is not None else reading.add(low, None))
    _equate(question, reading, copied, inferred)
    for key, want in zip(reading.output, question.expected or (), strict=False):
        reading.relations.append(Relation(1, (key,), 1, (reading.add_dim(want),)))
    return reading


def _equate(question: AnyQuestion, reading: Reading, copied: Sequence[int], inferred: int | None) -> None:
    left_out = copied if inferred is not None and question.operation.copies_cancel else ()
    left = tuple(key for index, key in enumerate(reading.data) if index not in left_out)
    right = [key for index, key in enumerate(reading.output) if index not in left_out]
    if inferred is not None:
        divisors = [key for index, key in enumerate(reading.output) if index not in {inferred, *left_out}]
        for key in divisors:
            reading.meet(key, 1, None)
    reading.relations.insert(0, Relation(1, left, 1, tuple(right)))
