"""What nobody should send, and everybody does."""

import socket
from collections.abc import Sequence
from random import Random

from attackers.payloads import METHODS, SMALL, STATIC, encode_call
from attackers.random_frames import send_random_frames
from http2 import (
    END_HEADERS,
    HEALTH_CHECK,
    HEALTH_WATCH,
    REFLECTION,
    SERVICE_PATH,
    Connection,
    Kind,
    frame,
    grpc_message,
)

_AT_ONCE = 30
_OTHERS = (HEALTH_CHECK, HEALTH_WATCH, REFLECTION)
_NOT_UTF8, _NOT_PROTOBUF = b"\x0a\x02\xff\xfe", b"\xff\xff"
FORGED_GOAWAY = frame(Kind.GOAWAY, 0, 0, bytes(4) + b"\0\0\0\1" + b'x\n{"level": "ERROR", "message": "forged"}\n')
_CLIENT_HELLO = bytes.fromhex("16030100c4010000c00303") + bytes(186)


def _call_each(address: str, calls: Sequence[tuple[str, bytes, tuple[tuple[str, str], ...]]]) -> None:
    """Makes the calls for ever: the path, what is sent, and headers besides."""
    with Connection(address) as connection:
        while not connection.closed:
            streams = []
            for path, sent, headers in calls:
                streams.append(connection.open(path, headers=headers))
                connection.send_data(streams[-1], sent, end=True, seconds=1)
            for stream in streams:
                connection.await_end(stream, seconds=1)


def garbled_others(address: str) -> None:
    """Bytes that are no message, for health, watch and reflection."""
    bodies = (_NOT_UTF8, _NOT_PROTOBUF, b"\x0a\x88\x27" + b"A" * 5000)
    _call_each(address, [(path, grpc_message(body), ()) for path in _OTHERS for body in bodies] * 4)


def garbled_messages(address: str) -> None:
    """Random bytes, and requests with changed ones, for each method."""
    random = Random(9)
    bodies = [random.randbytes(random.randrange(200)) for _ in range(_AT_ONCE // 2)]
    for _ in range(_AT_ONCE // 2):
        changed = bytearray(SMALL)
        changed[random.randrange(len(changed))] = random.randrange(256)
        bodies.append(bytes(changed))
    _call_each(address, [(METHODS[place % len(METHODS)], grpc_message(body), ()) for place, body in enumerate(bodies)])


def unknown_methods(address: str) -> None:
    """Methods and services that there are not, with names that no log should repeat."""
    paths = [SERVICE_PATH + "Nothing", "/", "//", "/x", "/" + "y" * 4000, SERVICE_PATH + "\x1b[2J%s%n", "*", "no/slash"]
    _call_each(address, [(path, grpc_message(SMALL), ()) for path in paths] * 4)


def wrong_headers(address: str) -> None:
    """Content types, encodings and deadlines of nobody's."""
    headers = [
        ("content-type", "text/html"),
        ("grpc-encoding", "gzip"),
        ("grpc-encoding", "nonsense"),
        ("grpc-timeout", "0n"),
        ("grpc-timeout", "99999999999H"),
        ("grpc-timeout", "-1S"),
        ("grpc-timeout", "x"),
        ("user-agent", "\x1b]0;owned\x07" * 20),
        ("x-binary-bin", "!!! not base64 !!!"),
        ("content-length", "-5"),
    ]
    _call_each(address, [(STATIC, grpc_message(SMALL), (header,)) for header in headers] * 3)


def wrong_compression(address: str) -> None:
    """Compression flags without compression, and ones that there are not."""
    flags = (1, 2, 127, 255)
    _call_each(address, [(path, grpc_message(SMALL, flag), ()) for path in (*METHODS, *_OTHERS) for flag in flags])


def forbidden_frames(address: str) -> None:
    """PUSH_PROMISE, which no client may send, and GOAWAY with a text that looks like a line of a log."""
    push = frame(Kind.PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + encode_call(STATIC))
    while True:
        for raw in (push, FORGED_GOAWAY):
            with Connection(address) as connection:
                connection.send(raw)
                connection.await_(lambda: bool(connection.closed), seconds=0.1)


def wrong_protocols(address: str) -> None:
    """TLS, HTTP/1 and noise, each on a connection of its own."""
    host, _, port = address.rpartition(":")
    random = Random(9)
    while True:
        for greeting in (_CLIENT_HELLO, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", random.randbytes(64), b"\x00" * 24):
            with socket.create_connection((host, int(port)), 5) as connection:
                connection.settimeout(0.05)
                connection.sendall(greeting)
                try:
                    connection.recv(4096)
                except TimeoutError:
                    continue


def random_frames(address: str) -> None:
    """Connections of random and changed frames."""
    while True:
        send_random_frames(address, Random())
