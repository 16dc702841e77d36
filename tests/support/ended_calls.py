"""Calls over a real socket, with their recorded events and their ends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from http2 import SERVICE_PATH, Connection, grpc_message
from in_process import ANY_PORT, run_runner
from plain_requests import build_reshape
from raw_streams import SIX, STRIDED, begin, chunk
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import Journal
from tensor_reshape.server.process.pools import FairLock
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.methods import LIGHT_BYTES, Backend, ReshapeService

SECONDS = 60.0
STALL_SECONDS = 0.5
RESHAPE, STREAM = f"{SERVICE_PATH}Reshape", f"{SERVICE_PATH}StreamReshape"
GOOD, LONG = build_reshape(24), build_reshape(2 * LIGHT_BYTES)
BEGINS = "ENTER REQUEST READ ARRIVE"
QUEUES = "QUEUE GRANT BEGIN_WORK"
ACCEPTS = f"{BEGINS} RESPOND REQUEST READ"


def pack(*messages: bytes) -> bytes:
    return b"".join(map(grpc_message, messages))


class Case(NamedTuple):
    """A call and its end."""

    path: str  # the path of the method
    data: bytes  # the bytes that the client sends
    events: str  # the recorded events, without SENT, whose time depends on the transport
    code: str = "OK"
    reason: str = ""  # the status code and the reason of the end
    field: str = ""  # the field at fault
    ends: bool = True  # whether the client half-closes the call


_STALLED = ("RESOURCE_EXHAUSTED", Reason.STALLED, "", False)
_MALFORMED = ("INVALID_ARGUMENT", Reason.MESSAGE_MALFORMED)
_MISMATCH = ("INVALID_ARGUMENT", Reason.VOLUME_MISMATCH, "shape")

CASES = {
    "a small call": Case(RESHAPE, pack(GOOD), f"{BEGINS} END OVER"),
    "a large call": Case(RESHAPE, pack(LONG), f"{BEGINS} {QUEUES} END OVER"),
    "a rejection": Case(RESHAPE, pack(build_reshape(24, 7)), f"{BEGINS} END OVER", *_MISMATCH),
    "a large rejection": Case(
        RESHAPE, pack(build_reshape(2 * LIGHT_BYTES, 7)), f"{BEGINS} {QUEUES} END OVER", *_MISMATCH
    ),
    "no message": Case(RESHAPE, b"", "ENTER REQUEST READ HALF_CLOSE END OVER", *_MALFORMED),
    "half a message": Case(RESHAPE, pack(bytes(100))[:50], "ENTER REQUEST READ HALF_CLOSE END OVER", *_MALFORMED),
    "a silent call": Case(RESHAPE, b"", "ENTER REQUEST READ ABORT OVER", *_STALLED),
    "a stream": Case(
        STREAM, pack(begin(), chunk(0, SIX)), f"{ACCEPTS} ARRIVE RESPOND REQUEST READ HALF_CLOSE END OVER"
    ),
    "a stream of strides": Case(
        STREAM,
        pack(STRIDED, chunk(0, SIX)),
        f"{ACCEPTS} ARRIVE QUEUE BEGIN_WORK RESPOND REQUEST READ HALF_CLOSE END OVER",
    ),
    "a rejected stream": Case(
        STREAM,
        pack(begin(), chunk(3, SIX)),
        f"{ACCEPTS} ARRIVE END OVER",
        "INVALID_ARGUMENT",
        Reason.CHUNK_OUT_OF_ORDER,
        "offset",
    ),
    "half a tensor": Case(
        STREAM,
        pack(begin()),
        f"{ACCEPTS} HALF_CLOSE END OVER",
        "INVALID_ARGUMENT",
        Reason.DATA_SIZE_MISMATCH,
        "data.data",
    ),
    "a stream that stands still": Case(STREAM, pack(begin()), f"{ACCEPTS} ABORT OVER", *_STALLED),
}


@contextmanager
def serve(
    backend: Backend = reshape, *, journals: Sequence[Journal] = (), gates: Sequence[Gate] = (), **settings: Any
) -> Iterator[Runner]:
    """Runs the real server. The receiving thread processes small calls with any backend."""
    config = Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0, **settings)
    service = ReshapeService(config.limits, backend=backend, make_turns=FairLock)
    with run_runner(config, service=service, journals=journals, gates=gates) as runner:
        yield runner


def end_call(
    address: str, path: str, data: bytes, *, ends: bool = True, headers: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    with Connection(address) as connection:
        stream = connection.open(path, end=ends and not data, headers=headers)
        if data:
            connection.send_data(stream, data, end=ends)
        connection.await_end(stream)
        return connection.headers[stream]
