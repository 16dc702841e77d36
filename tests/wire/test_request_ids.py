"""Valid and invalid request ids."""

from tensor_reshape.wire.request_ids import MAX_REQUEST_ID_CHARACTERS, REQUEST_ID_KEY, find_request_id, is_request_id

LONGEST = "~" * MAX_REQUEST_ID_CHARACTERS


def test_request_id_must_be_visible_ascii():
    named = ["a", "0af7651916cd43dd8448eb211c80319c", "req/7:b=1", LONGEST]
    assert [text for text in named if not is_request_id(text)] == []
    others: list[object] = ["", " ", "a b", "a\n", "\x1b[2J", "\u00e4", LONGEST + "~", b"a", None, 7]
    assert [value for value in others if is_request_id(value)] == []


def test_request_id_is_found_in_metadata():
    assert find_request_id((("other", "x"), (REQUEST_ID_KEY, "a-1"))) == "a-1"
    for metadata in ((), (("other", "x"),), ((REQUEST_ID_KEY, "a b"),)):
        assert find_request_id(metadata) is None
