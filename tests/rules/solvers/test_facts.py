"""The normal form of facts about products of variables."""

from collections.abc import Sequence

import pytest

from tensor_reshape.rules.dims import Interval, Symbol
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.solvers import facts as facts_module
from tensor_reshape.rules.solvers.equations import Range, fold
from tensor_reshape.rules.solvers.facts import DIVIDES, EQUAL, RANGE, Facts

ANY = Range(0, MAX_DIM)
A, B, C = range(3)


def start(*ranges: Range, names: str = "abc") -> Facts:
    """Returns facts about three variables, which have any value unless a range is given."""
    every = [*ranges, *[ANY] * (3 - len(ranges))]
    return Facts(every, lambda: dict(enumerate(map(Symbol, names))))


def write(facts: Facts) -> list[str] | None:
    """Returns the conditions as text; None for a contradiction."""
    listed, contradict = facts.solve()
    return None if contradict else list(map(str, listed))


# a quotient; the condition that it is 1, and the condition that it is an integer
QUOTIENTS: dict[str, tuple[Product[int], list[str] | None, list[str] | None]] = {
    "half a number": (Product(6, (), 3), None, []),
    "a variable by a number": (Product(6, (A,), 4), None, ["2 divides a"]),
    "a number by a variable": (Product(6, (), 2, (A,)), ["a = 3"], ["a divides 3"]),
    "a number by a square": (Product(36, (), 1, (A, A)), ["a = 6"], ["a^2 divides 36"]),
    "a square by a number": (Product(1, (A, A), 12), None, ["6 divides a"]),
    "a common factor": (Product(1, (A, C), 1, (A, B)), ["c = b unless a = 0"], ["b divides c unless a = 0"]),
    "equal products": (Product(2, (A, B), 2, (B, A)), [], []),
    "different multiples": (Product(3, (A,), 2, (A,)), ["a = 0"], ["a = 0"]),
    "zero": (Product(0, (), 1, (A, B)), ["a*b = 0"], []),
    "a zero divisor": (Product(1, (A, B), 0), ["a*b = 0"], ["a*b = 0"]),
    "products": (Product(2, (B, C), 1, (A,)), ["2*b*c = a"], ["a divides 2*b*c"]),
}


@pytest.mark.parametrize("row", QUOTIENTS.values(), ids=list(QUOTIENTS))
def test_fact_has_its_normal_form(row: tuple[Product[int], list[str] | None, list[str] | None]):
    quotient, equal, divides = row
    for kind, expected in ((EQUAL, equal), (DIVIDES, divides)):
        facts = start()
        facts.add(kind, quotient, 4, "shape")
        assert write(facts) == expected


def test_range_of_a_product_is_divided_by_its_number():
    facts = start()
    facts.add(RANGE, Product(4, (A,)), 5, "x", Interval(6, 17))
    facts.add(RANGE, Product(1, (B, B)), 5, "x", Interval(5, None))
    facts.add(RANGE, Product(1, (A, C)), 5, "x", Interval(3, None))
    assert write(facts) == ["2 <= a <= 4", "b >= 3", "a*c >= 3"]


def test_known_variable_simplifies_the_other_facts():
    facts = start()
    facts.add(EQUAL, Product(1, (A, B), 6), 4, "shape")
    facts.add(EQUAL, Product(1, (B, C), 15), 4, "shape")
    facts.add(EQUAL, Product(1, (C,), 5), 5, "x")
    assert write(facts) == ["a = 2", "b = 3", "c = 5"]


def test_required_elements_are_listed_unless_another_condition_implies_them():
    facts = start(ANY, Range(0, 1), Range(0, 9))
    for key in (A, B, C):
        facts.require_positive(key, key)
    facts.add(DIVIDES, Product(12, (), 1, (A,)), 3, "shape[3]")
    assert write(facts) == ["b = 1", "c >= 1", "a divides 12"]


def test_required_elements_contradict_an_empty_range():
    facts = start(Range(0, 0))
    facts.require_positive(A, 0)
    assert write(facts) is None


def test_declared_step_implies_a_divisibility():
    facts = start()
    facts.declare(Product(1, (A, B), 6))
    facts.add(DIVIDES, Product(1, (A, B, C), 3), 3, "shape[0]")
    assert write(facts) == []


def test_equality_implies_a_divisibility():
    facts = start()
    facts.add(DIVIDES, Product(1, (A,), 3), 3, "shape[0]")
    facts.add(EQUAL, Product(1, (A,), 12, (B,)), 5, "x")
    assert write(facts) == ["a = 12*b"]


def test_equality_keeps_a_divisibility_by_another_number():
    facts = start()
    facts.add(DIVIDES, Product(1, (A,), 9), 3, "shape[0]")
    facts.add(EQUAL, Product(1, (A,), 12, (B,)), 5, "x")
    assert write(facts) == ["9 divides a", "a = 12*b"]


def test_fact_about_a_variable_without_a_name_is_not_complete():
    facts = start(names="ab")
    facts.add(EQUAL, Product(1, (C,), 1, (A,)), 4, "shape")
    assert (write(facts), facts.complete) == ([], False)


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
