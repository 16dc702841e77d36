"""Concrete instances of a partial question and what becomes of them, by a reading of the rules of its own."""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion

_MANY = 12
"""So many values of a wide interval are tried from its low end."""


class Instance(NamedTuple):
    """A concrete question and its result.

    Attributes:
        data: the dims.
        items: the target, each with whether it is a length whatever its value.
        output: None where the rules refuse it.
    """

    data: tuple[int, ...]
    items: tuple[tuple[int, bool], ...]
    output: tuple[int, ...] | None


def list_instances(question: AnyQuestion, limit: int) -> tuple[list[Instance], bool]:
    """Returns instances of a question, `limit` of them at most, and whether they are all there are."""
    data, target = question.data, question.target or ()
    lengths = [not isinstance(item, int) for item in target]
    domains = [_list_values(item, target) for item in (*(data or ()), *target)]
    whole = data is not None and prod(len(domain) for domain, _ in domains) <= limit
    chosen = _choose(question, [domain for domain, _ in domains], limit, whole=whole)
    instances = []
    for dims, values in islice(chosen, limit):
        items = tuple(zip(values, lengths, strict=True))
        instances.append(Instance(dims, items, reshape(dims, items, special_zero=bool(question.special_zero))))
    return instances, whole and all(complete for _, complete in domains)


def reshape(
    data: tuple[int, ...], items: tuple[tuple[int, bool], ...], *, special_zero: bool
) -> tuple[int, ...] | None:
    """Returns the output of Reshape-1, None where the rules refuse it."""
    output = [value for value, _ in items]
    copied = {index for index, item in enumerate(items) if special_zero and item == (0, False)}
    inferred = [index for index, item in enumerate(items) if item == (-1, False)]
    if min(output, default=0) < -1 or max(copied, default=-1) >= len(data) or len(inferred) > 1:
        return None
    for index in copied:
        output[index] = data[index]
    if inferred:
        volume = prod(dim for index, dim in enumerate(data) if index not in copied)
        others = prod(dim for index, dim in enumerate(output) if index not in {*copied, *inferred})
        if others == 0 or volume % others:
            return None
        output[inferred[0]] = volume // others
    fits = prod(output) == prod(data) and max(output, default=0) <= MAX_DIM
    return tuple(output) if fits else None


def _choose(
    question: AnyQuestion, domains: list[list[int]], limit: int, *, whole: bool
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    rank = len(question.data or ())
    if whole:
        yield from ((values[:rank], values[rank:]) for values in product(*domains))
        return
    random = Random(limit)  # the same instances in every run
    free, _ = _list_values(None, question.target or ())
    while True:
        if question.data is None:
            data = tuple(random.choice(free) for _ in range(random.randint(0, len(domains) + 2)))
            yield data, tuple(random.choice(domain) for domain in domains)
        else:
            values = tuple(random.choice(domain) for domain in domains)
            yield values[:rank], values[rank:]


def _list_values(dim: AnyDim, target: Sequence[AnyDim]) -> tuple[list[int], bool]:
    """Returns values of a dim, and whether there are no others: of a wide one those that the target may ask for."""
    if isinstance(dim, int):
        return [dim], True
    low, high = find_bounds(dim)
    if high is not None and high - low <= _MANY:
        return list(range(low, high + 1)), True
    literals = [item for item in target if isinstance(item, int) and item > 0]
    likely = {*range(low, low + _MANY), *literals, prod(literals), *([] if high is None else [high - 1, high])}
    return sorted(value for value in likely if value <= MAX_DIM and find_bounds(dim).holds(value)), False
