"""Calls over HTTP: with the client of the standard library, and byte by byte; and their queries as JSON."""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from server_processes import ServerProcess
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE

WAIT_SECONDS = 60.0
INFER_PATH, BATCH_PATH = INFER_SHAPE.path, BATCH_INFER_SHAPE.path

QUESTION: dict[str, Any] = {
    "operation": "OPERATION_RESHAPE",
    "special_zero": True,
    "data": {"shape": {"dims": ["2", "-1"], "partial": [{"index": 1, "symbol": {"name": "N"}}]}},
    "shape": {"items": ["-1"]},
}
"""Reshape-1 of (2,N) to one dim."""

ANSWER: dict[str, Any] = {
    "shape": {
        "dims": ["-1"],
        "partial": [{"index": 0, "expression": {"coefficient": "2", "factors": [{"name": "N"}]}}],
    },
    "conditionsComplete": True,
}
"""The response: 2*N."""


def write_json(document: object) -> bytes:
    return json.dumps(document).encode()


def write_batch(count: int, question: dict[str, Any] = QUESTION) -> bytes:
    return write_json({"items": [{"question": question}] * count})


def write_body(*, target: object = "[-1]", binary: object = None, **tensor: Any) -> bytes:
    """Returns the JSON of a request with one FP32 input of shape (2, 3)."""
    elements = {"data": [1, 2, 3, 4, 5, 6.5]} if binary is None else {"parameters": {"binary_data_size": binary}}
    given = {"name": "data", "datatype": "FP32", "shape": [2, 3], **elements, **tensor}
    return json.dumps({"inputs": [given], "parameters": {"shape": target, "special_zero": False}}).encode()


def change_body(body: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(body), **fields}).encode()


NOTHING: Mapping[str, str] = MappingProxyType({})


class Reply(NamedTuple):
    """A response: the status, the headers by their lower-case names, the JSON, and the bytes of the body."""

    code: int
    headers: Mapping[str, str]
    document: Any
    content: bytes = b""

    @property
    def reason(self) -> str:
        return str(self.document["details"][0]["reason"])


def find_http(server: ServerProcess) -> str:
    """Returns the HTTP address of a server that was started with `--http-listen`."""
    (record,) = server.await_records(1, "listening for HTTP")
    return str(record["address"])


def request(
    address: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] = NOTHING,
    *,
    context: ssl.SSLContext | None = None,
) -> Reply:
    host, _, port = address.rpartition(":")
    if context is None:
        connection = http.client.HTTPConnection(host, int(port), WAIT_SECONDS)
    else:
        connection = http.client.HTTPSConnection(host, int(port), timeout=WAIT_SECONDS, context=context)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        text = response.read()
        told = {name.lower(): value for name, value in response.getheaders()}
        is_json = told.get("content-type") == "application/json"
        return Reply(response.status, told, json.loads(text) if is_json and text else None, text)
    finally:
        connection.close()


def post(
    address: str,
    document: object = QUESTION,
    path: str = INFER_PATH,
    headers: Mapping[str, str] = NOTHING,
    *,
    context: ssl.SSLContext | None = None,
) -> Reply:
    told = {"content-type": "application/json", **headers}
    return request(address, "POST", path, write_json(document), told, context=context)


def write_request(
    body: bytes = b"", *lines: bytes, path: str = INFER_PATH, method: str = "POST", length: int | None = None
) -> bytes:
    """Returns the bytes of a request. `length` overrides the Content-Length."""
    head = [
        f"{method} {path} HTTP/1.1".encode(),
        b"Host: localhost",
        b"Content-Type: application/json",
        b"Content-Length: %d" % (len(body) if length is None else length),
        *lines,
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def connect(address: str) -> socket.socket:
    return connect_from(None, address)


def connect_from(source: str | None, address: str) -> socket.socket:
    """Connects from another address of this machine, for example 127.0.0.2."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_SECONDS, source and (source, 0))


def receive_all(connection: socket.socket) -> bytes:
    """Returns all bytes until the connection is closed or reset."""
    received = b""
    try:
        while chunk := connection.recv(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Returns the status and the body of the next response on a connection that stays open."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.read()
