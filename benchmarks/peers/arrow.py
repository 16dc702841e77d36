"""Arrow Flight: DoExchange of a record batch, the shape beside it as metadata."""

import json
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from benchmarks.sessions import Array, Call, Job, ThreadSession

_SCHEMA = pa.schema([pa.field("data", pa.float32(), nullable=False)])


class Server(fl.FlightServerBase):  # type: ignore[misc] # untyped
    """Answers every record batch with its data."""

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ANN401 - untyped
        """Answers until the client is done writing."""
        del context, descriptor
        writer.begin(reader.schema)
        for chunk in reader:
            array = _read(chunk)
            batch = pa.record_batch([pa.array(np.ravel(array))], schema=reader.schema)
            writer.write_with_metadata(batch, json.dumps(array.shape).encode())


def serve(address: str) -> None:
    """Serves for ever."""
    Server(_build_url(address)).serve()


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one connection, which all clients share: "call" begins an exchange for every call, "open" keeps one."""
    client = stack.enter_context(fl.connect(_build_url(job.address)))
    return ThreadSession(job, stack, partial(_connect, variant, client, job, stack), job.check)


def _connect(variant: str, client: Any, job: Job, stack: ExitStack) -> Call:  # noqa: ANN401 - untyped
    shape = json.dumps(job.target).encode()

    def begin() -> tuple[Any, Any]:
        writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"reshape"))
        writer.begin(_SCHEMA)
        return writer, reader

    def write(writer: Any) -> None:  # noqa: ANN401 - untyped
        writer.write_with_metadata(pa.record_batch([pa.array(job.array)], schema=_SCHEMA), shape)

    def call() -> Array:
        writer, reader = begin()
        write(writer)
        writer.done_writing()
        answer = _read(reader.read_chunk())
        writer.close()
        return answer

    if variant == "call":
        return call
    writer, reader = begin()
    # The stack runs these in reverse: done writing first, for which the server's loop waits.
    stack.callback(writer.close)
    stack.callback(writer.done_writing)

    def call_again() -> Array:
        write(writer)
        return _read(reader.read_chunk())

    return call_again


def _read(chunk: Any) -> Array:  # noqa: ANN401 - untyped
    array: Array = chunk.data.column(0).to_numpy(zero_copy_only=True)
    return array.reshape(json.loads(chunk.app_metadata.to_pybytes()))


def _build_url(address: str) -> str:
    path = address.removeprefix("unix:")
    return f"grpc+unix://{path}" if path != address else f"grpc+tcp://{address}"
