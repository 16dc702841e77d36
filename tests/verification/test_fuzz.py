"""A small run of `scripts/verify fuzz`: every encoding is parsed as the generated class parses it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from verification.fuzz import Comparison, describe

INPUTS = 4000


@pytest.mark.parametrize("seed", ["a", "b"])
def test_fixed_fuzzed_messages_decode_like_the_protobuf_class(seed: str):
    comparison = Comparison()
    assert [describe(0, mismatch) for mismatch in comparison.run(seed, INPUTS)] == []
    assert comparison.tally.done == INPUTS


@examples(300)
@given(st.integers(0, 2**64 - 1))
def test_random_fuzzed_messages_decode_like_the_protobuf_class(seed: int):
    assert [describe(0, mismatch) for mismatch in Comparison().run(str(seed), 40)] == []
