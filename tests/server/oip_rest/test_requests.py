"""The headers of inference requests over REST, and what is rejected."""

from starlette.requests import Request as HttpRequest

from tensor_reshape.server.oip_rest.requests import MAX_JSON_BYTES, find_infer_error
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER


def find_code(**headers: str) -> int:
    """Returns the HTTP status with which the headers of a request are rejected; 0 if they are accepted."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    error = find_infer_error(HttpRequest({"type": "http", "method": "POST", "headers": pairs}), 1 << 30)
    return 0 if error is None else error.status_code


def test_sizes_in_the_headers_are_checked_before_the_body_is_read():
    assert find_code(content_length=str(MAX_JSON_BYTES)) == 0
    assert find_code(content_length=str(1 << 30), **{LENGTH_HEADER: "100"}) == 0
    assert find_code() == 411
    assert find_code(content_length="-1") == 411
    assert find_code(content_length=str((1 << 30) + 1), **{LENGTH_HEADER: "100"}) == 413
    assert find_code(content_length=str(MAX_JSON_BYTES + 1)) == 413
    assert find_code(content_length="9", **{LENGTH_HEADER: "10"}) == 400
    assert find_code(content_length="9", **{LENGTH_HEADER: "x"}) == 400


def test_chunked_rest_body_is_rejected_even_with_a_length():
    assert find_code(content_length="9", transfer_encoding="chunked") == 411


def test_compressed_rest_body_is_rejected():
    assert find_code(content_length="9", content_encoding="gzip") == 415
    assert find_code(content_length="9", content_encoding="identity") == 0
