"""Calls whose messages do not arrive, byte for byte: HTTP/2 without any library, so that nothing is held back."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

_DATA, _HEADERS, _RST_STREAM, _SETTINGS = 0, 1, 3, 4
_END_HEADERS, _END_STREAM = 4, 1
_STREAM = 1
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WINDOW = 65535  # what a peer may send before anybody says more
SECONDS = 20.0


class HalfRequest:
    """One call on a connection of its own."""

    def __init__(self, address: str, method: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._file = self._socket.makefile("rb")
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method,
            ":authority": address,
            "content-type": "application/grpc",
            "te": "trailers",
        }
        block = b"".join(b"\x00" + _encode(name) + _encode(value) for name, value in headers.items())
        self._send_frame(_SETTINGS, 0, 0, b"", preface=_PREFACE)
        self._send_frame(_HEADERS, _END_HEADERS, _STREAM, block)

    def send_part(self, size: int, of: int) -> None:
        """Sends the first `size` bytes of a message of `of`: not more than goes without being asked for."""
        body = b"\x00" + of.to_bytes(4, "big") + bytes(size)
        assert len(body) <= _WINDOW
        for begin in range(0, len(body), 16384):
            self._send_frame(_DATA, 0, _STREAM, body[begin : begin + 16384])

    def await_end(self) -> None:
        """Awaits that the server ends the call."""
        while True:
            head = self._file.read(9)
            assert head, "the server closed the connection"
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
            self._file.read(int.from_bytes(head[:3], "big"))
            if stream == _STREAM and (kind == _RST_STREAM or (kind == _HEADERS and flags & _END_STREAM)):
                return

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _send_frame(self, kind: int, flags: int, stream: int, payload: bytes, preface: bytes = b"") -> None:
        head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        self._socket.sendall(preface + head + payload)


@contextmanager
def open_half(address: str, method: str) -> Iterator[HalfRequest]:
    """Begins a call: its headers are sent, and nothing else."""
    request = HalfRequest(address, method)
    try:
        yield request
    finally:
        request.close()


def _encode(text: str) -> bytes:
    """A literal of HPACK, without compression."""
    raw = text.encode()
    assert len(raw) < 127
    return bytes([len(raw)]) + raw
