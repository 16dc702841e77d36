"""The cases of the suite find mistakes that are planted in a second implementation."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tensor_reshape.conformance.cases import RULES, Case, list_cases
from tensor_reshape.conformance.verdicts import CaseVerdict, judge
from tests.oracles.planted_mistakes import SOURCE, answer_with, find_case, load_mistakes
from tests.oracles.second_implementation import answer

MISTAKES = load_mistakes()
CORE = list_cases(["core"])

WEAKER_IN_CORE = {"conditions/unknown-item@reshape": "the answer names no dim of which an item is unknown"}
"""The core cases for which the second implementation has a wider answer, with the cause."""


BASELINE = {
    CaseVerdict.WEAKER: 196,
    CaseVerdict.TIGHTER: 10,
    CaseVerdict.MISSING_ERROR: 2,  # an equation of products without a solution in integers
    CaseVerdict.WRONG_SHAPE: 2,  # conditions of an expected product, and of an item that may be a -1
}
"""How often the second implementation does not agree in the 22,000 cases of the other sizes."""


def list_others(cases: Sequence[Case]) -> list[tuple[Case, CaseVerdict]]:
    """Returns the cases for which the second implementation does not agree, with the verdicts."""
    verdicts = [(case, judge(case, answer(case.query)).verdict) for case in cases]
    return [(case, verdict) for case, verdict in verdicts if verdict is not CaseVerdict.AGREES]


def test_planted_mistakes_concern_every_rule():
    assert (len(MISTAKES), len({mistake.name for mistake in MISTAKES})) == (94, 94)
    assert {mistake.rule for mistake in MISTAKES} == set(RULES)
    assert [mistake.name for mistake in MISTAKES if SOURCE.count(mistake.old) != 1] == []


def test_each_planted_mistake_changes_the_answer_to_its_query():
    for mistake in MISTAKES:
        query = {"id": mistake.name, "question": mistake.query}
        plain, given = answer(query), answer_with(mistake, query)
        assert given is None or ("rejection" in plain) is not ("rejection" in given) or plain != given, mistake.name


def test_second_implementation_gives_the_answers_of_core_cases():
    others = list_others(CORE[::8])
    assert {(case.id, verdict) for case, verdict in others} <= {(name, CaseVerdict.WEAKER) for name in WEAKER_IN_CORE}


@pytest.mark.repository  # it judges 22,000 answers, which takes a minute
def test_second_implementation_gives_the_answers_of_most_cases():
    assert {case.id: verdict for case, verdict in list_others(CORE)} == dict.fromkeys(
        WEAKER_IN_CORE, CaseVerdict.WEAKER
    )
    others = list_others(list_cases(["full", "hostile"]))
    assert Counter(verdict for _, verdict in others) == BASELINE


def test_core_cases_find_each_planted_mistake():
    assert [mistake.name for mistake in MISTAKES if find_case(mistake, CORE) is None] == []
