"""The normal form of facts about products of variables."""

import pytest

from tensor_reshape.rules.dims import Interval
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.solvers.equations import Range
from tensor_reshape.rules.solvers.facts import Facts
from tensor_reshape.rules.solvers.products import DIVIDES, EQUAL, ONE, RANGE, Ratio

ANY = Range(0, MAX_DIM)
A, B, C = range(3)


def start(*ranges: Range, names: str = "abc") -> Facts:
    """Returns facts about three variables, which have any value unless a range is given."""
    every = [*ranges, *[ANY] * (3 - len(ranges))]
    return Facts(every, lambda: dict(enumerate(names)))


def write(facts: Facts) -> list[str] | None:
    """Returns the conditions as text; None for a contradiction."""
    listed, contradict = facts.solve()
    return None if contradict else list(map(str, listed))


# left, right; the equality, and the condition that left divides right
RATIOS: dict[str, tuple[Ratio, Ratio, list[str] | None, list[str] | None]] = {
    "numbers": (Ratio(3, ()), Ratio(6, ()), None, []),
    "a number and a variable": (Ratio(4, ()), Ratio(6, (A,)), None, ["2 divides a"]),
    "a variable and a number": (Ratio(2, (A,)), Ratio(6, ()), ["a = 3"], ["a divides 3"]),
    "a square": (Ratio(1, (A, A)), Ratio(36, ()), ["a = 6"], ["a^2 divides 36"]),
    "a number and a square": (Ratio(12, ()), Ratio(1, (A, A)), None, ["6 divides a"]),
    "a common factor": (Ratio(1, (A, B)), Ratio(1, (A, C)), ["b = c unless a = 0"], ["b divides c unless a = 0"]),
    "equal products": (Ratio(2, (A, B)), Ratio(2, (B, A)), [], []),
    "different multiples": (Ratio(2, (A,)), Ratio(3, (A,)), ["a = 0"], ["a = 0"]),
    "zero": (Ratio(1, (A, B)), Ratio(0, ()), ["a*b = 0"], []),
    "divisors": (Ratio(1, (A,), 2, (B,)), Ratio(1, (C,)), ["a = 2*b*c"], ["a divides 2*b*c"]),
}


@pytest.mark.parametrize("row", RATIOS.values(), ids=list(RATIOS))
def test_fact_has_its_normal_form(row: tuple[Ratio, Ratio, list[str] | None, list[str] | None]):
    left, right, equal, divides = row
    for kind, expected in ((EQUAL, equal), (DIVIDES, divides)):
        facts = start()
        facts.add(kind, left, right, 4, "shape")
        assert write(facts) == expected


def test_range_of_a_product_is_divided_by_its_number():
    facts = start()
    facts.add(RANGE, Ratio(4, (A,)), ONE, 5, "x", Interval(6, 17))
    facts.add(RANGE, Ratio(1, (B, B)), ONE, 5, "x", Interval(5, None))
    facts.add(RANGE, Ratio(1, (A, C)), ONE, 5, "x", Interval(3, None))
    assert write(facts) == ["2 <= a <= 4", "b >= 3", "a*c >= 3"]


def test_known_variable_simplifies_the_other_facts():
    facts = start()
    facts.add(EQUAL, Ratio(1, (A, B)), Ratio(6, ()), 4, "shape")
    facts.add(EQUAL, Ratio(1, (B, C)), Ratio(15, ()), 4, "shape")
    facts.add(EQUAL, Ratio(1, (C,)), Ratio(5, ()), 5, "x")
    assert write(facts) == ["a = 2", "b = 3", "c = 5"]


def test_required_elements_are_listed_unless_another_condition_implies_them():
    facts = start(ANY, Range(0, 1), Range(0, 9))
    for key in (A, B, C):
        facts.require_positive(key, key)
    facts.add(DIVIDES, Ratio(1, (A,)), Ratio(12, ()), 3, "shape[3]")
    assert write(facts) == ["b = 1", "c >= 1", "a divides 12"]


def test_required_elements_contradict_an_empty_range():
    facts = start(Range(0, 0))
    facts.require_positive(A, 0)
    assert write(facts) is None


def test_declared_step_implies_a_divisibility():
    facts = start()
    facts.declare(Ratio(1, (A, B), 6))
    facts.add(DIVIDES, Ratio(3, ()), Ratio(1, (A, B, C)), 3, "shape[0]")
    assert write(facts) == []


def test_equality_implies_a_divisibility():
    facts = start()
    facts.add(DIVIDES, Ratio(3, ()), Ratio(1, (A,)), 3, "shape[0]")
    facts.add(EQUAL, Ratio(1, (A,)), Ratio(12, (B,)), 5, "x")
    assert write(facts) == ["a = 12*b"]


def test_equality_keeps_a_divisibility_by_another_number():
    facts = start()
    facts.add(DIVIDES, Ratio(9, ()), Ratio(1, (A,)), 3, "shape[0]")
    facts.add(EQUAL, Ratio(1, (A,)), Ratio(12, (B,)), 5, "x")
    assert write(facts) == ["9 divides a", "a = 12*b"]


def test_fact_about_a_variable_without_a_name_is_not_complete():
    facts = start(names="ab")
    facts.add(EQUAL, Ratio(1, (C,)), Ratio(1, (A,)), 4, "shape")
    assert (write(facts), facts.complete) == ([], False)


def test_long_chain_of_facts_is_normalised_once_for_each_narrowed_variable(monkeypatch: pytest.MonkeyPatch):
    count, calls = 60, []
    fold = Facts._fold

    def record(facts: Facts, ratio: Ratio) -> tuple[int, tuple[int, ...]]:
        calls.append(ratio)
        return fold(facts, ratio)

    monkeypatch.setattr(Facts, "_fold", record)
    facts = Facts([Range(1, MAX_DIM)] * (count + 1), lambda: {key: f"n{key}" for key in range(count + 1)})
    for key in range(count):
        facts.add(EQUAL, Ratio(1, (key, key + 1)), Ratio(6, ()), 4, "shape")
    facts.add(EQUAL, Ratio(1, (count,)), Ratio(2, ()), 4, "shape")
    assert write(facts) == [f"n{key} = {2 if key % 2 == 0 else 3}" for key in range(count + 1)]
    assert len(calls) < 8 * count  # two products for each fact
