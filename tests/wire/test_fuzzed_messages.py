"""Readers of messages agree with oracles that use the generated classes, for valid, cut and changed messages."""

from itertools import islice
from random import Random

import pytest

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.wire.fields import find_payload, measure_header
from tests.oracles import headers
from tests.oracles.plain_messages import read_plainly
from verification.fuzz import LIMITS, read_message
from verification.fuzz_inputs import INFERENCE, Input, generate

INPUTS = 6000


def generate_messages(seed: str) -> list[Input]:
    return [one for one in islice(generate(Random(seed)), INPUTS) if one.kind != INFERENCE]


@pytest.mark.parametrize("seed", ["a", "b"])
def test_fuzzed_messages_are_read_like_the_generated_class(seed: str):
    for one in generate_messages(seed):
        assert read_message(one.kind, one.raw)[1] == read_plainly(one.kind, one.raw, LIMITS), (one.kind, one.raw.hex())


def test_payload_of_a_fuzzed_message_is_found_like_the_oracle():
    random = Random(1)
    for _, raw in generate_messages("c"):
        begin, fields = random.choice((0, 0, 0, 1, 2, 5)), random.choice((0, 0, 1, 2))
        for within in (MAX_HEADER_BYTES, 32 * random.randint(0, 4), random.randint(0, 200)):
            want = headers.find_payload(raw, begin, fields, within)
            assert find_payload(raw, begin, fields, within=within) == want, (raw.hex(), begin, fields, within)


def test_header_of_a_fuzzed_message_is_measured_like_the_oracle():
    for _, raw in generate_messages("d"):
        for nested in (False, True):
            size, want = measure_header(raw, nested=nested), headers.measure_header(raw, nested=nested)
            assert min(size, MAX_HEADER_BYTES + 1) == min(want, MAX_HEADER_BYTES + 1), (raw.hex(), nested)
