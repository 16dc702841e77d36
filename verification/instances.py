"""Searches instances of partial queries that have too many instances to try: at each end of an answer, or outside it.

This module is written independently of the solver, with another method. A query is a set of equations of products, with
one system for each reading of its unknown items. Every dimension is a variable, 0 is a number like any other, and each
name is one variable.

Invariant: the plain reading of the rules (`verification.checker`) accepts each instance and computes its
output, so every instance that is found is certain. If none is found, there may still be one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, Dim, find_bounds, format_dims
from tensor_reshape.rules.limits import MAX_DIM, MAX_RANK
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer
from tests.oracles.shape_instances import answer_concrete, find_accepted, find_fault
from verification.checker import Found, Instance
from verification.equations import Relation, Search, Spans

_OPEN = 1 << 400  # represents no bound: above any product of bounded dims in the queries
_FAR = ((MAX_DIM, _OPEN), (720_720 << 64, 720_720 << 64))  # an instance in one of these shows that a dim has no bound
_TRIES = 400  # the number of values that are tried for one end, over all readings
_READINGS = 200
_RANKS = range(4)  # the ranks that are tried for an unknown rank


class Findings(NamedTuple):
    """The result of comparing an answer with instances."""

    wrong: str = ""  # the contradiction with an instance; empty if there is none
    loose: Sequence[str] = ()  # the ends that no instance was found to reach; empty if the answer is tight


def check_answer(question: AnyQuestion, answer: ShapeAnswer | None) -> Findings:
    """Compares an answer, or a rejection, with instances that are searched for and with small ones."""
    small = find_accepted(question, budget=100)
    found = [*small.accepted, *find_any(question)]
    _, wrong = find_fault(answer, Found(found, small.rejected, complete=False))
    if wrong or answer is None:
        return Findings(wrong)
    if answer.dims is None:
        return Findings(loose=[] if len({len(one.output) for one in found}) > 1 else ["the rank is known"])
    if not found:
        return Findings(loose=["no instance is accepted"])
    at_ends, loose = find_ends(question, answer.dims)
    others = [*at_ends, *find_outside(question, answer.dims)]
    return Findings(find_fault(answer, Found(others, [], complete=False))[1], loose)


def find_any(question: AnyQuestion) -> Iterator[Instance]:
    """Yields an instance of each rank that the output may have, if any is found."""
    sides = (question.target, question.expected)
    for rank in next((range(len(side), len(side) + 1) for side in sides if side is not None), _RANKS):
        asked = question if question.target is not None else question._replace(target=(None,) * rank)
        # An instance is often easier to find if one dimension of the output is given.
        tried: list[tuple[int, tuple[int, int | None]]] = [(0, (0, None))]
        tried += ((index, (value, value)) for index in range(rank) for value in (1, 0))
        found = (find_instance(asked, index, ends) for index, ends in tried)
        yield from islice(filter(None, found), 1)


def find_instance(
    question: AnyQuestion, index: int = 0, ends: tuple[int, int | None] = (0, None), tries: int = _TRIES
) -> Instance | None:
    """Returns an instance whose output dimension at an index is in a range, both ends included.

    Above `MAX_DIM`, dimensions without a bound are numbers of any size, which no rule accepts. Such an instance shows
    that only the maximum of a number bounds the dimension.
    """
    low, high = ends
    cap = _OPEN if high is not None and high > MAX_DIM else MAX_DIM
    search = Search(tries, Random(f"{index} {ends}"))
    for reading in islice(_list_readings(question, cap), _READINGS):
        if reading.output:
            reading.meet(reading.output[index], low, high)
        values = search.find(reading.spans, reading.relations)
        if values is not None:
            return reading.find_accepted(question, values)
    return None


def find_outside(question: AnyQuestion, dims: Sequence[AnyDim]) -> Iterator[Instance]:
    """Yields instances whose output has the rank of an answer but is not within it, so the answer is unsound."""
    for index, dim in enumerate(dims):
        low, high = find_bounds(dim)
        for ends in ((0, low - 1), (MAX_DIM + 1 if high is None else high + 1, MAX_DIM)):
            found = find_instance(question, index, ends) if ends[0] <= ends[1] else None
            if found is not None:
                yield found


def find_ends(question: AnyQuestion, dims: Sequence[AnyDim]) -> tuple[list[Instance], list[str]]:
    """Returns instances at the ends of an answer, and the ends that no instance was found to reach."""
    found, loose = list[Instance](), list[str]()
    for index, dim in enumerate(dims):
        low, high = find_bounds(dim)
        for end in dict.fromkeys((low, high)):
            if any(one.output[index] == end for one in found):
                continue
            tried = (find_instance(question, index, ends) for ends in (_FAR if end is None else ((end, end),)))
            instance = next(filter(None, tried), None)
            if instance is None:
                loose.append(f"dim {index}: no instance reaches {'any number' if end is None else end}")
            elif end is not None:
                found.append(instance)
    return found, loose


@dataclass(slots=True)
class _Reading:
    cap: int  # the bound of unbounded variables
    spans: Spans = field(default_factory=list)  # the range of each variable, both ends included
    # the equations between the variables; the first one is that of the volumes
    relations: list[Relation] = field(default_factory=list)
    data: list[int] = field(default_factory=list)  # the variables of the input dimensions
    output: list[int] = field(default_factory=list)  # the variables of the output dimensions
    # for each item, whether it is a dimension whatever its value, and its value if it is known
    items: list[tuple[bool, int | None]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # the variables of the symbols

    def add(self, low: int, high: int | None) -> int:
        self.spans.append((low, self.cap))
        self.meet(len(self.spans) - 1, low, high)
        return len(self.spans) - 1

    def meet(self, key: int, low: int, high: int | None) -> None:
        """Narrows the range of a variable; the largest dimension is not a bound."""
        own = self.spans[key]
        self.spans[key] = (max(own[0], low), own[1] if high in {None, MAX_DIM} else min(own[1], high))

    def add_dim(self, dim: AnyDim) -> int:
        """Returns the variable of a dimension; an expression gets a variable and an equation."""
        bounds = find_bounds(dim)
        if not isinstance(dim, Dim) or dim.expression is None:
            return self.add(*bounds)
        expression = dim.expression
        factors, divisors = (
            tuple(self._add_name(symbol.name, *symbol.bounds) for symbol in symbols)
            for symbols in (expression.factors, expression.divisors)
        )
        if expression.symbol is not None:
            self.meet(factors[0], *bounds)
            return factors[0]
        for key in divisors:
            self.meet(key, 1, None)
        whole = self.add(*bounds)
        self.relations.append(Relation(expression.divisor, (whole, *divisors), expression.coefficient, factors))
        return whole

    def find_accepted(self, question: AnyQuestion, values: Sequence[int]) -> Instance:
        """Returns the instance of a solution, which the plain reading of the rules must accept."""
        data, output = (tuple(values[key] for key in keys) for keys in (self.data, self.output))
        items = [
            (is_length, output[at] if value is None else value) for at, (is_length, value) in enumerate(self.items)
        ]
        if self.cap == MAX_DIM:
            want = answer_concrete(question, data, items)
            assert want == output, f"{format_dims(data)} under {items} is {want}, not {output}"
        numbers = tuple(value for _, value in items)
        named = {f"data[{index}]": dim for index, dim in enumerate(data)}
        named |= {f"shape[{index}]": item for index, item in enumerate(numbers)}
        return Instance(data, numbers, output, named | {name: values[key] for name, key in self.names.items()})

    def _add_name(self, name: str, low: int, high: int | None) -> int:
        key = self.names[name] if name in self.names else self.names.setdefault(name, self.add(0, None))
        self.meet(key, low, high)
        return key


_INFERRED, _COPY, _LENGTH = "inferred", "copy", "length"


def _list_readings(question: AnyQuestion, cap: int) -> Iterator[_Reading]:
    """Yields every reading of the unknown items that may have an instance."""
    items = question.target if question.target is not None else [None] * len(question.expected or ())
    if question.expected is not None and len(question.expected) != len(items):
        return
    data = question.data
    if data is None:
        # One more dimension than the copied ones represents all others; a dimension that does not exist is 1.
        data = [None] * min(len(items) + 1, question.operation.max_rank or MAX_RANK)
    choices = [_list_choices(question, item, index, len(data)) for index, item in enumerate(items)]
    for kinds in product(*choices):
        if kinds.count(_INFERRED) <= 1:
            yield _read(question, data, list(zip(items, kinds, strict=True)), cap)


def _list_choices(question: AnyQuestion, item: AnyDim, index: int, rank: int) -> Sequence[str]:
    copies = (_COPY,) if question.special_zero and index < rank else ()
    if item is None:
        return (_LENGTH, _INFERRED, *copies)
    if not isinstance(item, int) or (item == 0 and not question.special_zero) or 0 < item <= MAX_DIM:
        return (_LENGTH,)
    return copies if item == 0 else (_INFERRED,) if item == -1 else ()


def _read(question: AnyQuestion, data: Sequence[AnyDim], items: Sequence[tuple[AnyDim, str]], cap: int) -> _Reading:
    reading, copied, inferred = _Reading(cap), list[int](), None
    reading.data = [reading.add_dim(dim) for dim in data]
    for index, (item, kind) in enumerate(items):
        if kind == _COPY:
            copied.append(index)
            reading.items.append((False, 0))
            reading.output.append(reading.data[index])
        elif kind == _INFERRED:
            inferred = index
            reading.items.append((False, -1))
            reading.output.append(reading.add(0, None))
        else:
            reading.items.append((not isinstance(item, int), None))
            # With special_zero, an unknown item that is 0 is a copy, so as a dimension the item is at least 1.
            low = 1 if item is None and question.special_zero else 0
            reading.output.append(reading.add_dim(item) if item is not None else reading.add(low, None))
    left_out = copied if inferred is not None and question.operation.copies_cancel else []
    left, right = (
        tuple(key for index, key in enumerate(keys) if index not in left_out) for keys in (reading.data, reading.output)
    )
    for index, key in enumerate(reading.output):
        if inferred is not None and index not in {inferred, *left_out}:
            reading.meet(key, 1, None)
    reading.relations.insert(0, Relation(1, left, 1, right))
    for key, want in zip(reading.output, question.expected or (), strict=False):
        reading.relations.append(Relation(1, (key,), 1, (reading.add_dim(want),)))
    return reading
