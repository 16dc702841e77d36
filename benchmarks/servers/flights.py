"""Arrow Flight: DoExchange answers every record batch with its data, the shape beside it as metadata."""

import json
import sys
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pyarrow.flight as fl  # type: ignore[import-not-found, import-untyped, unused-ignore]


class Server(fl.FlightServerBase):  # type: ignore[misc, unused-ignore]
    """Reshapes."""

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ANN401 - untyped
        """Answers until the client is done writing."""
        del context, descriptor
        writer.begin(reader.schema)
        for chunk in reader:
            shape = json.loads(chunk.app_metadata.to_pybytes())
            array = chunk.data.column(0).to_numpy(zero_copy_only=True).reshape(shape)
            metadata = json.dumps(array.shape).encode()
            batch = pa.record_batch([pa.array(np.ravel(array))], schema=reader.schema)
            writer.write_with_metadata(batch, metadata)


def main() -> None:
    """Serves on the address that is the argument."""
    address = sys.argv[1]
    path = address.removeprefix("unix:")
    Server(f"grpc+unix://{path}" if path != address else f"grpc+tcp://{address}").serve()


if __name__ == "__main__":
    main()
