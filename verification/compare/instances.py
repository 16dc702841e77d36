"""Concrete instances of a partial question, wide ones too, and what the brute-force oracle says becomes of them."""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from random import Random

from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion
from tests.oracles.shape_instances import Dims, answer_concrete

_MANY = 12
"""So many values of a wide interval are tried from its low end."""


def answer_instances(question: AnyQuestion, limit: int) -> tuple[list[Dims | None], bool]:
    """Returns the output of each instance, None where the rules refuse it, and whether there are no others.

    At most `limit` of them are tried.
    """
    data, target = question.data, question.target or ()
    lengths = [not isinstance(item, int) for item in target]
    domains = [_list_values(item, target) for item in (*(data or ()), *target)]
    whole = data is not None and prod(len(domain) for domain, _ in domains) <= limit
    chosen = _choose(question, [domain for domain, _ in domains], limit, whole=whole)
    outputs = [
        answer_concrete(question, dims, tuple(zip(lengths, values, strict=True)))
        for dims, values in islice(chosen, limit)
    ]
    return outputs, whole and all(complete for _, complete in domains)


def _choose(question: AnyQuestion, domains: list[list[int]], limit: int, *, whole: bool) -> Iterator[tuple[Dims, Dims]]:
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
