"""Sizes are parsed exactly, and survive a round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.sizes import format_size, parse_size, round_size

READ = {
    "0": 0,
    "16842752": 16842752,
    "1B": 1,
    "1KiB": 1024,
    "64MiB": 64 * 2**20,
    "1 GiB": 2**30,
    " 3TiB ": 3 * 2**40,
}
NO_SIZES = {
    "16M": "write 16MiB (16777216 bytes) or 16000000",
    "16MB": "write 16MiB (16777216 bytes) or 16000000",
    "1 k": "write 1KiB (1024 bytes) or 1000",
    "2gb": "write 2GiB (2147483648 bytes) or 2000000000",
    "64Mi": "write 64MiB",
    "64mib": "write 64MiB",
    "1.5GiB": "write a whole number of bytes, KiB, MiB, GiB or TiB (no fractions), such as 64MiB",
    **dict.fromkeys(("", "MiB", "-1", "1_000", "0x10", "1e6", "٣MiB", "1  MiB", "1PiB", "1MiB 1KiB", "9" * 5000), ""),
}


def test_parse_size_accepts_bytes_and_binary_units():
    assert {text: parse_size(text) for text in READ} == READ


def test_error_for_an_invalid_byte_size_gives_advice():
    for text, advice in NO_SIZES.items():
        with pytest.raises(ValueError, match="is not a size") as caught:
            parse_size(text)
        assert str(caught.value).endswith(advice)


@given(st.integers(0, 2**60))
def test_format_size_round_trips(size: int):
    assert parse_size(format_size(size)) == size


def test_format_size_uses_the_largest_exact_unit():
    texts = {0: "0", 1000: "1000", 2**20: "1MiB", 16842752: "16448KiB", 2**40 * 1024: "1024TiB"}
    assert {size: format_size(size) for size in texts} == texts


def test_round_size_truncates_to_two_decimals():
    texts = {
        0: "0 B",
        1000: "1000 B",
        2**24: "16 MiB",
        16842752: "16.06 MiB",
        2**30 - 1: "1023.99 MiB",
        1536: "1.5 KiB",
    }
    assert {size: round_size(size) for size in texts} == texts
