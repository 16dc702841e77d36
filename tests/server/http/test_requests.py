"""HTTP headers are converted to the metadata of calls, and checked."""

from starlette.requests import Request

from tensor_reshape.server.http.requests import CONNECT_VERSION, find_body_error, find_origin_error, read_metadata


def test_http_headers_become_metadata_if_grpc_accepts_them():
    headers = ((b"x-request-id", b"a"), (b"x-name", "ü".encode()), (b"x-bin", b"b"), (b"y", b"c"), (b"y", b"d"))
    assert read_metadata(Request({"type": "http", "headers": headers})) == [
        ("x-request-id", "a"),
        ("y", "c"),
        ("y", "d"),
    ]


def test_chunks_are_only_for_connect_requests_with_a_body():
    for method, version, is_allowed in (("POST", b"1", True), ("GET", b"1", False), ("POST", b"", False)):
        headers = [(b"transfer-encoding", b"chunked"), *([(CONNECT_VERSION.encode(), version)] if version else [])]
        error = find_origin_error(Request({"type": "http", "method": method, "headers": headers}), ())
        assert (error is None) == is_allowed, (method, version)


def test_chunked_json_body_is_rejected_even_with_a_length():
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2"), (b"transfer-encoding", b"chunked")]
    error = find_body_error(Request({"type": "http", "method": "POST", "headers": headers}), 100)
    assert error is not None
    assert error.status_code == 411
