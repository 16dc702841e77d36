"""Questions over the wire and back: the answers are those of `infer_locally`, alone and in batches with links."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.batches import BatchItem
from tests.oracles.round_trips import check_round_trips
from verification.prove.proofs import choose_request
from verification.prove.wide_questions import Wide

ITEMS = 8


@examples(60)
@given(st.integers(0, 2**32))
def test_wide_questions_are_answered_as_locally(seed: int):
    wide = Wide(Random(seed))
    assert check_round_trips([wide.choose_item(index) for index in range(ITEMS)]) == []


@examples(60)
@given(st.integers(0, 2**32))
def test_small_questions_are_answered_as_locally(seed: int):
    random = Random(seed)
    assert check_round_trips([BatchItem(choose_request(random)[1]) for _ in range(ITEMS)]) == []
