"""Readers of messages agree with oracles that use the generated classes, for valid, cut and changed messages."""

from itertools import islice
from random import Random

import pytest

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.wire.fields import find_payload, measure_header
from tensor_reshape.wire.reshapes import find_parts
from tests.oracles import headers
from tests.oracles.plain_messages import read_plainly
from verification.fuzz import LIMITS, read_message
from verification.fuzz_inputs import INFERENCE, Input, generate

INPUTS = 5000


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
        whole = headers.find_payload(raw, begin, fields, MAX_HEADER_BYTES)
        bound = whole[0] - begin if whole else 0
        for within in (MAX_HEADER_BYTES, 32 * random.randint(0, 4), random.randint(0, 200), bound, bound + 1):
            want = headers.find_payload(raw, begin, fields, within)
            assert find_payload(raw, begin, fields, within=within) == want, (raw.hex(), begin, fields, within)
        assert find_payload(raw) == headers.find_payload(raw, 0, 0, MAX_HEADER_BYTES)


def test_parts_of_a_fuzzed_message_are_found_like_the_oracle():
    random = Random(2)
    for _, raw in generate_messages("e"):
        for within in (MAX_HEADER_BYTES, 32 * random.randint(0, 6), random.randint(0, 200)):
            outer = headers.find_payload(raw, 0, 0, within)
            inner = headers.find_payload(raw, *outer[1:], within) if outer else None
            want = (*outer[:2], *inner[:2]) if outer and inner else None
            assert find_parts(raw, within) == want, (raw.hex(), within)
        assert find_parts(raw) == find_parts(raw, MAX_HEADER_BYTES)


def test_header_of_a_fuzzed_message_is_measured_like_the_oracle():
    for _, raw in generate_messages("d"):
        for nested in (False, True):
            size, want = measure_header(raw, nested=nested), headers.measure_header(raw, nested=nested)
            assert min(size, MAX_HEADER_BYTES + 1) == min(want, MAX_HEADER_BYTES + 1), (raw.hex(), nested)
