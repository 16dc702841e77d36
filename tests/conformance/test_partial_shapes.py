"""Every case of which something is not known: each answer is as narrow as the one that is wanted, or narrower."""

from collections.abc import Sequence
from functools import cache

import pytest

from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import infer
from tests.oracles.conformance_cases import (
    Case,
    count_tighter,
    find_wider,
    infer_case,
    load_partial_cases,
    read_partial_case,
)
from tests.oracles.shape_instances import find_accepted
from tests.oracles.volumes import can_be_equal

CASES = load_partial_cases()
SHAPES = [case for case in CASES if "shape" in case["recorded"]]
_LITERAL = {
    "partial/rv-03597": Reason.INVALID_TARGET_VALUE,  # [None, -3]
    "partial/rv-05244": Reason.MULTIPLE_MINUS_ONE,  # [-1, None, -1, 3]
}
"""Those that a literal decides, whatever the rest; an unknown item kept the library from looking."""


@cache
def list_refused() -> list[Case]:
    """Returns the cases of which a shape is wanted and which are refused here."""
    return [case for case in SHAPES if infer_case(case) is None]


def test_no_case_is_left_out():
    assert len(CASES) == 1795


def test_no_dim_is_wider_than_it_is_wanted():
    answers = [(case["id"], infer_case(case), case["recorded"]["shape"]) for case in SHAPES]
    assert [(name, find_wider(answer.dims, want)) for name, answer, want in answers if answer is not None] == [
        (name, "") for name, answer, _ in answers if answer is not None
    ]


def test_every_case_that_is_to_be_refused_is():
    errors = [case for case in CASES if "error" in case["recorded"]]
    assert [case["id"] for case in errors if infer_case(case) is not None] == []


def test_every_answer_is_sound_where_its_instances_can_be_tried():
    asked = [(case, find_accepted(read_partial_case(case)), infer_case(case)) for case in CASES[::4]]
    outside = [
        (case["id"], accepted.output)
        for case, found, answer in asked
        for accepted in found.accepted
        if answer is None or (answer.dims is not None and not _holds(answer.dims, accepted.output))
    ]
    assert outside == []


def _holds(dims: Sequence[AnyDim], output: Sequence[int]) -> bool:
    return len(dims) == len(output) and all(
        find_bounds(dim).holds(value) for dim, value in zip(dims, output, strict=True)
    )


def test_what_is_refused_though_a_shape_is_wanted_has_no_instance():
    others = [case for case in list_refused() if case["id"] not in _LITERAL]
    assert [case["id"] for case in others if can_be_equal(read_partial_case(case))] == []


@pytest.mark.parametrize("case", [case for case in SHAPES if case["id"] in _LITERAL], ids=lambda case: case["id"])
def test_what_a_literal_decides_is_refused_for_it(case: Case):
    with pytest.raises(InvalidRequestError) as caught:
        infer(read_partial_case(case))
    assert caught.value.reason == _LITERAL[case["id"]]


def test_most_answers_are_narrower_than_the_libraries():
    counts = count_tighter()
    assert counts["strictly tighter: refused, for no instance is accepted"] == len(list_refused())
    assert counts["strictly tighter: a narrower dim"] >= 226
    assert counts["wider"] == 0
