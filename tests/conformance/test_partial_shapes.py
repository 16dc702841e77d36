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
from verification.instances import find_any

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


def test_every_answer_is_as_narrow_as_the_recorded_one():
    assert len(CASES) == 1795
    answers = [(case["id"], infer_case(case), case["recorded"]["shape"]) for case in SHAPES]
    wider = {name: find_wider(answer.dims, want) for name, answer, want in answers if answer is not None}
    assert [(name, text) for name, text in wider.items() if text] == []
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


def test_case_that_only_we_reject_has_no_instance():
    others = [case for case in list_refused() if case["id"] not in _LITERAL]
    assert [case["id"] for case in others if any(find_any(read_partial_case(case)))] == []


def test_wrong_literal_is_rejected_whatever_is_unknown():
    for case in (case for case in SHAPES if case["id"] in _LITERAL):
        with pytest.raises(InvalidRequestError) as caught:
            infer(read_partial_case(case))
        assert caught.value.reason == _LITERAL[case["id"]]


def test_many_answers_are_narrower_than_those_of_the_libraries():
    counts = count_tighter()
    assert counts["strictly tighter: refused, for no instance is accepted"] == len(list_refused())
    assert counts["strictly tighter: a narrower dim"] >= 226
    assert counts["wider"] == 0
