"""HTTP/2 frame by frame: sends every frame that an untrusted client may send, at any time. Only hpack is a library.

A connection reads in a separate thread, so that it receives frames while it sends. It sends frames without checking
them. If `reads` is False, it never reads a byte.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple, Self, cast

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SERVICE_PATH = "/tensor_reshape.v1.ReshapeService/"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
SECONDS = 60.0

END_STREAM, ACK, END_HEADERS = 1, 1, 4
_FRAME_HEADER_BYTES = 9
_DEFAULT_WINDOW = 65535
_INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = 4, 5  # identifiers in SETTINGS frames
_MAX_KEPT_BODY_BYTES = 1 << 20


class Kind(IntEnum):
    """The types of frames (RFC 9113, section 6)."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class End(NamedTuple):
    status: str  # the grpc-status; "RST" after a reset, "CLOSED" without a connection, "TIMEOUT" if it did not end
    message: str = ""  # the grpc-message, or other information

    @property
    def is_ok(self) -> bool:
        return self.status == "0"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def grpc_message(payload: bytes, compressed: int = 0) -> bytes:
    return bytes([compressed]) + len(payload).to_bytes(4, "big") + payload


def list_call_headers(path: str) -> list[tuple[str, str]]:
    """Returns the headers of every call. The server ignores the authority."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]


def settings(**values: int) -> bytes:
    """Returns a SETTINGS frame. The names are `initial_window_size` and `max_frame_size`."""
    numbers = {"initial_window_size": _INITIAL_WINDOW_SIZE, "max_frame_size": _MAX_FRAME_SIZE}
    return frame(
        Kind.SETTINGS, 0, 0, b"".join(struct.pack("!HI", numbers[name], value) for name, value in values.items())
    )


class Connection:
    """One connection of a client, which may be adversarial."""

    def __init__(
        self,
        address: str,  # `host:port`
        *,
        # bytes that the server may send on each stream, without later updates; None: no limit
        initial_window: int | None = None,
        reads: bool = True,  # whether the connection reads from the socket
        acknowledges: bool = True,  # whether it acknowledges the settings of the server, which apply only after that
        source: tuple[str, int] | None = None,  # the local address, and a port or 0; None: chosen by the system
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS, source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closed = ""  # why the connection was closed; empty while it is open
        self.bodies: dict[int, bytes] = {}  # the first MiB of the received data of each stream
        self.headers: dict[int, dict[str, str]] = {}  # all headers and trailers of each stream
        self.resets: dict[int, int] = {}  # the error codes of streams that the server has reset
        self.goaway = b""  # the payload of the last GOAWAY
        self.pongs: list[bytes] = []  # the payloads of the replies to PING frames
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        # Guards the state above and below. A thread that holds it may also take `_writing`, but not in reverse order.
        self._news = threading.Condition(threading.RLock())
        self._writing = threading.Lock()  # the reading thread sends, too
        self._window, self._first_window, self._max_frame = _DEFAULT_WINDOW, _DEFAULT_WINDOW, 16384
        self._windows: dict[int, int] = {}  # bytes that each stream may send before the next WINDOW_UPDATE
        self._raises_windows, self._acknowledges = initial_window is None, acknowledges
        self._next_stream = 1
        self.send(PREFACE + (settings() if initial_window is None else settings(initial_window_size=initial_window)))
        if reads:
            threading.Thread(target=self._read_all, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(self, raw: bytes) -> None:
        with self._writing:
            self.socket.sendall(raw)

    def open(self, path: str, *, end: bool = False, headers: Iterable[tuple[str, str]] = ()) -> int:
        """Sends the headers of a call and returns its stream."""
        # Locked, because headers must be sent in the order of their compression, and streams in the order of their ids.
        with self._news:
            stream, self._next_stream = self._next_stream, self._next_stream + 2
            self._windows[stream] = self._first_window
            block = self._encoder.encode([*list_call_headers(path), *headers])
            self.send(frame(Kind.HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block))
        return stream

    def send_data(self, stream: int, data: bytes, *, end: bool = False, seconds: float = SECONDS) -> int:
        """Sends data within the flow control windows. Returns the number of bytes that were sent in time."""
        sent, deadline = 0, time.monotonic() + seconds
        if not data:
            self.send(frame(Kind.DATA, END_STREAM if end else 0, stream))
        while sent < len(data):
            with self._news:
                if not self._news.wait_for(lambda: self._may_send(stream), deadline - time.monotonic()):
                    return sent
                if self.is_over(stream):
                    return sent
                size = min(len(data) - sent, self._window, self._windows[stream], self._max_frame)
                self._window -= size
                self._windows[stream] -= size
            flags = END_STREAM if end and sent + size == len(data) else 0
            self.send(frame(Kind.DATA, flags, stream, data[sent : sent + size]))
            sent += size
        return sent

    def call(self, path: str, message: bytes, *, seconds: float = SECONDS) -> End:
        stream = self.open(path)
        self.send_data(stream, grpc_message(message), end=True, seconds=seconds)
        return self.await_end(stream, seconds=seconds)

    def await_end(self, stream: int, *, seconds: float = SECONDS) -> End:
        with self._news:
            self._news.wait_for(lambda: self.is_over(stream), seconds)
            trailers = self.headers.get(stream, {})
            if "grpc-status" in trailers:
                return End(trailers["grpc-status"], trailers.get("grpc-message", ""))
            if stream in self.resets:
                return End("RST", str(self.resets[stream]))
            return End("CLOSED", self.closed) if self.closed else End("TIMEOUT")

    def ping(self, *, seconds: float = SECONDS) -> bool:
        """Sends a PING. Returns whether the server replied in time, which it does after reading all earlier frames."""
        answered = len(self.pongs)
        self.send(frame(Kind.PING, 0, 0, bytes(8)))
        return self.await_(lambda: len(self.pongs) > answered, seconds=seconds)

    def await_(self, condition: Callable[[], bool], *, seconds: float = SECONDS) -> bool:
        """Waits until a received frame makes `condition` true."""
        with self._news:
            return self._news.wait_for(condition, seconds)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def is_over(self, stream: int) -> bool:
        """Returns whether a call or its connection has ended."""
        return bool(self.closed) or stream in self.resets or "grpc-status" in self.headers.get(stream, {})

    def _may_send(self, stream: int) -> bool:
        return self.is_over(stream) or min(self._window, self._windows[stream]) > 0

    def _read_all(self) -> None:
        try:
            with self.socket.makefile("rb") as file:
                while True:
                    header = file.read(_FRAME_HEADER_BYTES)
                    if len(header) < _FRAME_HEADER_BYTES:
                        self._close("the server closed the connection")
                        return
                    payload = file.read(int.from_bytes(header[:3], "big"))
                    self._take(header[3], header[4], int.from_bytes(header[5:], "big") & 0x7FFFFFFF, payload)
        except (OSError, ValueError) as error:
            self._close(repr(error))

    def _close(self, why: str) -> None:
        with self._news:
            self.closed = why
            self._news.notify_all()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        with self._news:
            if kind == Kind.SETTINGS and not flags & ACK:
                self._set(payload)
            elif kind == Kind.PING:
                self._take_ping(payload, answers=bool(flags & ACK))
            elif kind == Kind.WINDOW_UPDATE:
                self._raise_window(stream, int.from_bytes(payload, "big") & 0x7FFFFFFF)
            elif kind == Kind.HEADERS:
                decoded = cast("Iterable[tuple[str, str]]", self._decoder.decode(payload))  # its stubs declare bytes
                self.headers.setdefault(stream, {}).update(decoded)
            elif kind == Kind.DATA:
                self._take_data(stream, payload)
            elif kind == Kind.RST_STREAM:
                self.resets[stream] = int.from_bytes(payload, "big")
            elif kind == Kind.GOAWAY:
                self.goaway = payload
            self._news.notify_all()

    def _take_ping(self, payload: bytes, *, answers: bool) -> None:
        if answers:
            self.pongs.append(payload)
        else:
            self.send(frame(Kind.PING, ACK, 0, payload))

    def _set(self, payload: bytes) -> None:
        for begin in range(0, len(payload), 6):
            name, value = struct.unpack("!HI", payload[begin : begin + 6])
            if name == _INITIAL_WINDOW_SIZE:
                self._windows = {stream: left + value - self._first_window for stream, left in self._windows.items()}
                self._first_window = value
            elif name == _MAX_FRAME_SIZE:
                self._max_frame = value
        if self._acknowledges:
            self.send(frame(Kind.SETTINGS, ACK, 0))

    def _raise_window(self, stream: int, size: int) -> None:
        if stream:
            self._windows[stream] = self._windows.get(stream, self._first_window) + size
        else:
            self._window += size

    def _take_data(self, stream: int, payload: bytes) -> None:
        kept = self.bodies.get(stream, b"")
        if len(kept) < _MAX_KEPT_BODY_BYTES:
            self.bodies[stream] = kept + payload
        if self._raises_windows and payload:
            size = struct.pack("!I", len(payload))
            self.send(frame(Kind.WINDOW_UPDATE, 0, 0, size) + frame(Kind.WINDOW_UPDATE, 0, stream, size))
