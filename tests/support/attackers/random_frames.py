"""Connections of random HTTP/2 frames: whole calls whose frames are changed, moved, cut and mixed with noise.

What a connection sends follows from its `Random` alone.
"""

import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

import hpack

from attackers.payloads import METHODS, SMALL, begin_stream, build_odd_strides, chunk, encode_call
from http2 import HEALTH_CHECK, HEALTH_WATCH, PREFACE, REFLECTION, Kind, frame, grpc_message

_PATHS = (*METHODS, HEALTH_CHECK, HEALTH_WATCH, REFLECTION, "/no/where")
_PATIENCE_SECONDS = 0.05
_INTERESTING = (0, 1, 127, 128, 16384, 65535, 2**31 - 1, 2**31, 2**32 - 1)


def send_random_frames(address: str, random: Random) -> Counter[str]:
    """Sends one connection's frames, and counts the statuses of what is answered: number and text."""
    host, _, port = address.rpartition(":")
    answers = b""
    with socket.create_connection((host, int(port)), 5) as connection, suppress(OSError):
        connection.settimeout(_PATIENCE_SECONDS)
        raw = build_frames(random)
        for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :]) if random.random() < 0.2 else (raw,):
            connection.sendall(part)
        if random.random() < 0.1:
            connection.shutdown(socket.SHUT_WR)
        if random.random() < 0.2:
            return Counter()  # and the connection is closed, whatever the server has to say
        while part := connection.recv(65536):
            answers += part
    return count_statuses(answers)


def build_frames(random: Random) -> bytes:
    """Returns what one connection sends."""
    frames = [frame(Kind.SETTINGS, 0, 0)]
    for stream in range(1, 2 * random.randrange(1, 6), 2):
        frames += _build_call(random, stream)
    for _ in range(random.randrange(4)):
        frames.insert(random.randrange(len(frames) + 1), _invent(random))
    for _ in range(random.choice((0, 0, 1, 1, 2, 5))):
        random.choice(_CHANGES)(random, frames)
    greeting = PREFACE if random.random() < 0.95 else random.randbytes(len(PREFACE))
    return greeting + b"".join(frames)


def _build_call(random: Random, stream: int) -> list[bytes]:
    block = encode_call(random.choice(_PATHS))
    body = random.choice((grpc_message(SMALL), begin_stream(8) + chunk(0, b"abcdefgh"), build_odd_strides(), b""))
    if random.random() < 0.3:
        changed = bytearray(body + b"\x00")
        changed[random.randrange(len(changed))] = random.randrange(256)
        body = bytes(changed)
    cut = random.randrange(len(block) + 1) if random.random() < 0.2 else len(block)
    frames = [frame(Kind.HEADERS, 4 if cut == len(block) else 0, stream, block[:cut])]
    if cut < len(block):
        frames.append(frame(Kind.CONTINUATION, 4, stream, block[cut:]))
    frames.append(frame(Kind.DATA, random.choice((0, 1, 1, 1)), stream, body))
    if random.random() < 0.2:
        frames.append(frame(Kind.RST_STREAM, 0, stream, random.randbytes(4)))
    return frames


def _invent(random: Random) -> bytes:
    """Returns a frame of any type, with any flags, for any stream."""
    kind = random.randrange(12) if random.random() < 0.9 else random.randrange(256)
    stream = random.choice((0, 1, 2, 3, 5, 99, *_INTERESTING))
    size = random.choice((0, 1, 4, 5, 6, 8, 12, random.randrange(300)))
    return frame(kind, random.randrange(256), stream, random.randbytes(size))


def _change_byte(random: Random, frames: list[bytes]) -> None:
    place = random.randrange(len(frames))
    changed = bytearray(frames[place] or b"\x00")
    changed[random.randrange(len(changed))] = random.randrange(256)
    frames[place] = bytes(changed)


def _change_length(random: Random, frames: list[bytes]) -> None:
    place = random.randrange(len(frames))
    frames[place] = (random.choice(_INTERESTING) & 0xFFFFFF).to_bytes(3, "big") + frames[place][3:]


def _cut(random: Random, frames: list[bytes]) -> None:
    place = random.randrange(len(frames))
    frames[place] = frames[place][: random.randrange(len(frames[place]) + 1)]


def _double(random: Random, frames: list[bytes]) -> None:
    frames.insert(random.randrange(len(frames) + 1), random.choice(frames))


def _drop(random: Random, frames: list[bytes]) -> None:
    if len(frames) > 1:
        frames.pop(random.randrange(len(frames)))


def _mix(random: Random, frames: list[bytes]) -> None:
    random.shuffle(frames)


_CHANGES: tuple[Callable[[Random, list[bytes]], None], ...] = (
    _change_byte,
    _change_length,
    _cut,
    _double,
    _drop,
    _mix,
)


def count_statuses(answers: bytes) -> Counter[str]:
    """Counts the grpc-statuses in what a server has sent, each with its text."""
    statuses: Counter[str] = Counter()
    decoder = hpack.Decoder()
    with suppress(hpack.HPACKError):
        for kind, payload in _split(answers):
            if kind == Kind.HEADERS:
                fields = {str(name): str(value) for name, value in decoder.decode(payload)}
                if "grpc-status" in fields:
                    statuses[f"{fields['grpc-status']} {fields.get('grpc-message', '')}".strip()] += 1
    return statuses


def _split(raw: bytes) -> list[tuple[int, bytes]]:
    frames, begin = [], 0
    while begin + 9 <= len(raw):
        end = begin + 9 + int.from_bytes(raw[begin : begin + 3], "big")
        frames.append((raw[begin + 3], raw[begin + 9 : end]))
        begin = end
    return frames
