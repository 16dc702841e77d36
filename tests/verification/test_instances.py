"""The search for instances reaches the same ends as brute force, and contradicts wrong answers."""

from random import Random

import pytest

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds
from tensor_reshape.rules.notation import parse_shape
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer
from tests.oracles.shape_instances import find_accepted
from verification import instances
from verification.checker import MAX_DIM, Instance, find_ends
from verification.prove import STYLES, choose_question


def make_question(data: str, target: str, expected: str | None = None) -> AnyQuestion:
    declared = None if expected is None else parse_shape(expected, "expected")
    return Question(
        RESHAPE, parse_shape(data, "data"), parse_shape(target, "shape"), special_zero=True, expected=declared
    )


def make_answer(text: str) -> ShapeAnswer:
    return ShapeAnswer(parse_shape(text, "shape"), conditions_complete=False)


@pytest.mark.parametrize(
    "style", sorted(STYLES.keys() - {"unknown rank"})
)  # brute force never tries all instances of this style
def test_instance_search_finds_the_same_as_brute_force(style: str):
    random, judged = Random(style), 0
    for _ in range(150):
        question = choose_question(random, STYLES[style])
        found = find_accepted(question, random, budget=300)
        if not found.complete or not found.accepted:
            continue
        hull: list[AnyDim] = [
            Dim(Interval(low, None if high == MAX_DIM else high)) for low, high in find_ends(found.accepted)
        ]
        assert instances.find_ends(question, hull)[1] == [], question
        assert list(instances.find_outside(question, hull)) == [], question
        for index, dim in enumerate(hull):
            low, high = find_bounds(dim)
            if high is not None:
                wider, narrower = Dim(Interval(low, high + 1)), Dim(Interval(low, max(high - 1, low)))
                assert instances.find_ends(question, [*hull[:index], wider, *hull[index + 1 :]])[1] != []
                outside = list(instances.find_outside(question, [*hull[:index], narrower, *hull[index + 1 :]]))
                assert bool(outside) is (high > low), (question, index)
        judged += 1
    assert judged


def test_instance_search_assigns_one_value_per_symbol():
    found = instances.find_instance(make_question("N,4", "-1,2"), 0, (6, 6))
    assert found == Instance(
        (3, 4), (-1, 2), (6, 2), {"data[0]": 3, "data[1]": 4, "shape[0]": -1, "shape[1]": 2, "N": 3}
    )


def test_instance_search_stops_at_its_limit():
    prime = f"{2**30}..{2**31}"
    question = make_question(",".join([prime] * 4), f"{2**31 - 1},{prime},{prime},{prime},-1")
    assert instances.find_instance(question, 4, (2, 2), tries=3) is None


def test_inferred_shapes_are_checked_against_known_instances():
    bounded, unknown = make_question("2..4,6", "-1,4"), make_question("2,3", "?")
    rankless, expected = make_question("2,3", "..."), make_question("2,3", "...", "?,2")
    rows = {
        "right": (bounded, "3..6,4", "", 0),
        "an upper end too far": (bounded, "3..7,4", "", 1),
        "a lower end too far": (bounded, "2..6,4", "", 1),
        "no upper end": (bounded, "3..,4", "", 1),
        "an instance above": (bounded, "3..5,4", "dim 0", 0),
        "an instance below": (bounded, "4..6,4", "dim 0", 0),
        "another rank": (bounded, "3..6", "the rank", 0),
        "no rank though it is known": (bounded, "...", "", 1),
        "a rejection though there is an instance": (bounded, None, "rejected", 0),
        "an answer though there is none": (make_question("5..7,12", "40,-1"), "40,2", "", 1),
        "a right rejection": (make_question("5..7,12", "40,-1"), None, "", 0),
        "a right name": (make_question("N,4", "-1"), "4*N", "", 0),
        "a wrong name": (make_question("N,4", "-1"), "2*N", "dim 0", 0),
        "an unknown item": (unknown, "6", "", 0),
        "no rank for an unknown rank": (rankless, "...", "", 0),
        "a rank for an unknown rank": (rankless, "6", "the rank", 0),
        "a rejection for an unknown rank": (rankless, None, "rejected", 0),
        "a rank that is expected": (expected, "3,2", "", 0),
        "a dim without an end": (make_question("?,3", "6,-1"), "6,?", "", 0),
        "a copy of a missing dim": (make_question("4", "0,0"), None, "", 0),
    }
    findings = {
        name: instances.check_answer(question, None if text is None else make_answer(text))
        for name, (question, text, _, _) in rows.items()
    }
    assert {name: (bool(found.wrong), len(found.loose)) for name, found in findings.items()} == {
        name: (bool(wrong), loose) for name, (_, _, wrong, loose) in rows.items()
    }
    assert [name for name, found in findings.items() if rows[name][2] not in found.wrong] == []
