"""Arrow Flight: DoExchange of a record batch, the shape beside it as metadata."""

import json
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pyarrow.flight as fl  # type: ignore[import-not-found, import-untyped, unused-ignore]

from benchmarks.clients.sessions import Array, Job, ThreadSession

_SCHEMA = pa.schema([pa.field("data", pa.float32(), nullable=False)])


class FlightConnection:
    """One client."""

    def __init__(self, job: Job, *, keep_open: bool) -> None:
        """Connects."""
        self._client = fl.connect(f"grpc+unix://{job.path}" if job.path else f"grpc+tcp://{job.address}")
        self._array = job.array
        self._shape = json.dumps(job.target).encode()
        self._keep_open = keep_open
        self._exchange: tuple[Any, Any] | None = None

    def call(self) -> Array:
        """One exchange, or one turn of the exchange that is open."""
        writer, reader = self._exchange or self._begin()
        batch = pa.record_batch([pa.array(self._array)], schema=_SCHEMA)
        writer.write_with_metadata(batch, self._shape)
        if not self._keep_open:
            writer.done_writing()
        answer = reader.read_chunk()
        shape = json.loads(answer.app_metadata.to_pybytes())
        if not self._keep_open:
            writer.close()
        array: Array = answer.data.column(0).to_numpy(zero_copy_only=True)
        return array.reshape(shape)

    def read(self, answer: Array) -> Array:
        """The answer is the array."""
        return np.asarray(answer)

    def close(self) -> None:
        """Disconnects."""
        if self._exchange is not None:
            self._exchange[0].done_writing()
            self._exchange[0].close()
        self._client.close()

    def _begin(self) -> tuple[Any, Any]:
        exchange: tuple[Any, Any] = self._client.do_exchange(fl.FlightDescriptor.for_command(b"reshape"))
        exchange[0].begin(_SCHEMA)
        if self._keep_open:
            self._exchange = exchange
        return exchange


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens clients; the variant "call" begins an exchange for every call, "open" keeps one."""
    return ThreadSession(job, lambda: FlightConnection(job, keep_open=variant == "open"))
