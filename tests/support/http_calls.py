"""Calls over HTTP: with the client of the standard library, and byte by byte."""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from json_bodies import INFER_PATH, QUESTION, write_json
from server_processes import ServerProcess

WAIT_SECONDS = 60.0
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
