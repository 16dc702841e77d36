"""HTTP headers are converted to the metadata of calls."""

from starlette.requests import Request

from tensor_reshape.server.http.requests import read_metadata


def test_http_headers_become_metadata_if_grpc_accepts_them():
    headers = ((b"x-request-id", b"a"), (b"x-name", "ü".encode()), (b"x-bin", b"b"), (b"y", b"c"), (b"y", b"d"))
    assert read_metadata(Request({"type": "http", "headers": headers})) == [
        ("x-request-id", "a"),
        ("y", "c"),
        ("y", "d"),
    ]
