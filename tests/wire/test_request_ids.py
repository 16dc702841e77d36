"""What names a call, and what does not."""

import pytest

from tensor_reshape.wire.request_ids import (
    MAX_REQUEST_ID_CHARACTERS,
    REQUEST_ID_KEY,
    find_request_id,
    is_request_id,
)


@pytest.mark.parametrize(
    "text", ["a", "0af7651916cd43dd8448eb211c80319c", "req/7:b=1", "~" * MAX_REQUEST_ID_CHARACTERS]
)
def test_visible_ascii_may_name_a_call(text: str):
    assert is_request_id(text)


@pytest.mark.parametrize(
    "value",
    ["", " ", "a b", "a\n", "\x1b[2J", "\u00e4", "a" * (MAX_REQUEST_ID_CHARACTERS + 1), b"a", None, 7],
    ids=repr,
)
def test_nothing_else_does(value: object):
    assert not is_request_id(value)


def test_an_id_is_found_among_the_metadata():
    assert find_request_id((("other", "x"), (REQUEST_ID_KEY, "a-1"))) == "a-1"


@pytest.mark.parametrize("metadata", [(), (("other", "x"),), ((REQUEST_ID_KEY, "a b"),)])
def test_metadata_without_an_id_have_none(metadata: tuple[tuple[str, str], ...]):
    assert find_request_id(metadata) is None
