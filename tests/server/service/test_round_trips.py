"""Queries over the wire and back have the answers of `infer_locally`, alone and in batches with references."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.batches import BatchItem
from tests.oracles.round_trips import check_round_trips
from verification.prove import Wide, choose_request

ITEMS = 8


@examples(120)
@given(st.integers(0, 2**32))
def test_server_query_results_match_local_inference(seed: int):
    random = Random(seed)
    wide = Wide(random)
    items = [
        wide.choose_item(index) if random.random() < 0.5 else BatchItem(choose_request(random)[1])
        for index in range(ITEMS)
    ]
    assert check_round_trips(items) == []
