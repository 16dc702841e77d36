"""Attacks on the HTTP port. `attacks.ATTACKS` names them."""

import json
import socket
import struct

from attack_connections import connect, keep_connections

MIB = 1 << 20
_QUESTION_BYTES = 63 * 1024  # a question may have 64 KiB
_CLOSE = b"\r\nConnection: close"
_INFER = b"/v2/models/reshape/infer"
_CHUNKED = b"Connect-Protocol-Version: 1\r\nTransfer-Encoding: chunked"


def slow_posts(address: str) -> None:
    """300 POST requests over HTTP that send one byte each second."""
    keep_connections(address, 300, _write_post(b"Content-Length: 1000") + b"{", b" ")


def slow_headers(address: str) -> None:
    """300 requests over HTTP whose headers arrive one byte each second."""
    keep_connections(address, 300, b"POST / HTTP/1.1\r\nX: ", b"a")


def idle_http_connections(address: str) -> None:
    """600 connections over HTTP without requests, which is more than the server accepts."""
    keep_connections(address, 600, b"")


def pipelined_requests(address: str) -> None:
    """Requests over HTTP that follow each other without a pause, and whose responses are never read."""
    _send_for_ever(address, _write_post(b"Content-Length: 2") + b"{}")


def large_http_headers(address: str) -> None:
    """Requests over HTTP with endless headers."""
    _send_for_ever(address, b"x: %b\r\n" % bytes(1000).replace(b"\0", b"a"), b"POST / HTTP/1.1\r\n")


def large_http_bodies(address: str) -> None:
    """Inference requests over REST that announce a body of 1 GB, and send it as fast as possible."""
    _send_for_ever(address, bytes(MIB), _write_post(b"Content-Length: 999999999", _INFER))


def large_http_chunks(address: str) -> None:
    """Requests of the Connect protocol with chunks of 1 MiB, as fast as possible."""
    _send_for_ever(address, b"100000\r\n%b\r\n" % bytes(MIB), _write_post(_CHUNKED))


def endless_chunks(address: str) -> None:
    """Requests of the Connect protocol whose body never ends, in chunks of one byte."""
    _send_for_ever(address, b"1\r\na\r\n" * 10_000, _write_post(_CHUNKED))


def half_closed_requests(address: str) -> None:
    """Requests over HTTP whose client closes its half of the connection before the response."""
    with connect(address) as connection:
        connection.sendall(_write_post(b"Content-Length: 2") + b"{}")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def long_json_responses(address: str) -> None:
    """Inference requests over REST with 4 MiB of long numbers as bytes, whose responses are JSON of 12 MiB."""
    payload = struct.pack("<d", -1.2345678901234567e-300) * (4 * MIB // 8)
    size = {"binary_data_size": len(payload)}
    data = {"name": "data", "datatype": "FP64", "shape": [4 * MIB // 8], "parameters": size}
    parameters = {"shape": "[-1]", "special_zero": False}
    head = json.dumps({"inputs": [data], "parameters": parameters}).encode()
    lengths = b"Content-Length: %d\r\nInference-Header-Content-Length: %d" % (len(head) + len(payload), len(head))
    _ask_for_ever(address, _write_post(lengths + _CLOSE, _INFER) + head + payload)


def empty_partial_dims(address: str) -> None:
    """Shape queries over HTTP of 63 KiB of JSON, which consists of empty objects for partial dimensions."""
    begin = b'{"operation":"OPERATION_RESHAPE","special_zero":true,"shape":{"items":["-1"]},'
    begin, end = begin + b'"data":{"shape":{"dims":["-1"],"partial":[{}', b"]}}}"
    body = begin + b",{}" * ((_QUESTION_BYTES - len(begin) - len(end)) // 3) + end
    _ask_for_ever(address, _write_post(b"Content-Length: %d" % len(body) + _CLOSE) + body)


def _write_post(line: bytes, target: bytes = b"/tensor_reshape.v1.ReshapeService/InferShape") -> bytes:
    """Returns the headers of a POST request."""
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%b\r\n\r\n" % (target, line)


def _ask_for_ever(address: str, request: bytes) -> None:
    """Sends a request on one connection after another, and reads each response."""
    while True:
        with connect(address) as connection:
            connection.settimeout(None)
            connection.sendall(request)
            while connection.recv(MIB):
                pass


def _send_for_ever(address: str, repeated: bytes, first: bytes = b"") -> None:
    """Sends bytes on a connection until the server closes it."""
    with connect(address) as connection:
        connection.settimeout(None)
        connection.sendall(first)
        while True:
            connection.sendall(repeated)
