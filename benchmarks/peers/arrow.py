"""Arrow Flight: DoExchange of a record batch, with the shape as metadata."""

import json
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from benchmarks.sessions import Array, Job, ThreadSession

_SCHEMA = pa.schema([pa.field("data", pa.float32(), nullable=False)])


class Server(fl.FlightServerBase):  # type: ignore[misc] # untyped
    """Returns the data of every record batch."""

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ANN401 - untyped
        """Sends responses until the client has sent all batches."""
        del context, descriptor
        writer.begin(reader.schema)
        for chunk in reader:
            array = _read(chunk)
            batch = pa.record_batch([pa.array(np.ravel(array))], schema=reader.schema)
            writer.write_with_metadata(batch, json.dumps(array.shape).encode())


def serve(address: str) -> None:
    """Serves forever."""
    Server(f"grpc+tcp://{address}").serve()


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one connection that all clients share, and begins an exchange for every call; there is one variant."""
    del variant
    client = stack.enter_context(fl.connect(f"grpc+tcp://{job.address}"))
    shape = json.dumps(job.target).encode()

    def call() -> Array:
        writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"reshape"))
        writer.begin(_SCHEMA)
        writer.write_with_metadata(pa.record_batch([pa.array(job.array)], schema=_SCHEMA), shape)
        writer.done_writing()
        answer = _read(reader.read_chunk())
        writer.close()
        return answer

    return ThreadSession(job, stack, lambda: call, job.check)


def _read(chunk: Any) -> Array:  # noqa: ANN401 - untyped
    array: Array = chunk.data.column(0).to_numpy(zero_copy_only=True)
    return array.reshape(json.loads(chunk.app_metadata.to_pybytes()))
