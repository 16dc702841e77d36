"""Questions over the wire and back: the answers are those of `infer_locally`, alone and in batches with links."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from verification.proofs import choose_request
from verification.wide import Wide

from round_trips import check_round_trips
from tensor_reshape.rules.batches import BatchItem

ITEMS = 8


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_questions_as_wide_as_the_contract_are_answered_as_locally(seed: int):
    wide = Wide(Random(seed))
    assert check_round_trips([wide.choose_item(index) for index in range(ITEMS)]) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_small_questions_are_answered_as_locally(seed: int):
    random = Random(seed)
    assert check_round_trips([BatchItem(choose_request(random)[1]) for _ in range(ITEMS)]) == []
