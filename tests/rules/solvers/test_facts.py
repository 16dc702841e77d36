"""The normal form of facts about products of variables."""

from collections.abc import Sequence

import pytest

from tensor_reshape.rules.dims import Symbol
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.solvers import facts as facts_module
from tensor_reshape.rules.solvers.equations import Range, fold
from tensor_reshape.rules.solvers.facts import EQUAL, Facts


def write(facts: Facts) -> list[str] | None:
    """Returns the conditions as text; None for a contradiction."""
    listed, contradict = facts.solve()
    return None if contradict else list(map(str, listed))


def test_fact_about_a_variable_without_a_name_is_not_complete():
    facts = Facts([Range(0, MAX_DIM)] * 2, lambda: {0: Symbol("a")})
    facts.add(EQUAL, Product(1, (1,), 1, (0,)), 4, "shape")
    assert (write(facts), facts.complete) == ([], False)


def test_known_variable_simplifies_the_other_facts():
    facts = Facts([Range(0, MAX_DIM)] * 3, lambda: dict(enumerate(map(Symbol, "abc"))))
    for quotient in (Product(1, (0, 1), 6), Product(1, (1, 2), 15), Product(1, (2,), 5)):
        facts.add(EQUAL, quotient, 4, "shape")
    assert write(facts) == ["a = 2", "b = 3", "c = 5"]


def test_long_chain_of_facts_is_normalised_once_for_each_narrowed_variable(monkeypatch: pytest.MonkeyPatch):
    count, calls = 60, []

    def record(product: Product[int], ranges: Sequence[Range], least: int) -> Product[int]:
        calls.append(product)
        return fold(product, ranges, least)

    monkeypatch.setattr(facts_module, "fold", record)
    facts = Facts([Range(1, MAX_DIM)] * (count + 1), lambda: {key: Symbol(f"n{key}") for key in range(count + 1)})
    for key in range(count):
        facts.add(EQUAL, Product(1, (key, key + 1), 6), 4, "shape")
    facts.add(EQUAL, Product(1, (count,), 2), 4, "shape")
    assert write(facts) == [f"n{key} = {2 if key % 2 == 0 else 3}" for key in range(count + 1)]
    assert len(calls) < 4 * count
