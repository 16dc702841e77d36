"""Reshapes arrays on a Ray cluster: Ray Data passes them to the SDK block by block.

First the program infers all shapes (`BatchInferShape`). This sends no element, and it finds each rejected shape before
any data moves. Then actors map the blocks (`Reshape`). Each actor runs near its data and has its own client.

Run it in an environment with Ray: `python examples/cluster_arrays.py ADDRESS`, with an address for `Client`.
`scripts/verify ray example` makes such an environment, and starts a server on this machine.
"""

import sys

import numpy as np
import numpy.typing as npt
import ray
import ray.data

from tensor_reshape.client import Client, ReshapeError, ShapeQuery

Block = dict[str, npt.NDArray[np.int64]]

ARRAYS, SHAPE, BLOCK_ARRAYS = 20_000, (8, 8, 3), 500
# Actors that wait for servers need no core. With one core each, two actors would leave none to read the data.
RESOURCES = {"compute": ray.data.ActorPoolStrategy(size=2), "num_cpus": 0}
FLAT = (0, -1)  # each array of a block becomes a row


class ShapeInferrer:
    """Infers shapes. Ray Data creates one for each actor, because a client cannot be sent to another process."""

    def __init__(self, address: str) -> None:
        """Connects to the servers."""
        self._client = Client(address)

    def __call__(self, block: Block) -> Block:
        """Returns the number of output elements for each number of arrays, or 0 for a rejected shape."""
        shapes = [(int(count), *SHAPE) for count in block["count"]]
        queries = [ShapeQuery(data_shape=shape, shape=FLAT, special_zero=True) for shape in shapes]
        results = self._client.infer_shapes(queries)
        elements = [0 if isinstance(result, ReshapeError) else int(np.prod([*result])) for result in results]
        return {"count": block["count"], "elements": np.array(elements)}


class Reshaper:
    """Reshapes all arrays of a block with one call."""

    def __init__(self, address: str) -> None:
        """Connects to the servers."""
        self._client = Client(address)

    def __call__(self, block: Block) -> Block:
        """Returns each array as a row."""
        return {"row": np.asarray(self._client.reshape(block["data"], FLAT, special_zero=True))}


def infer_shapes(address: str) -> None:
    """Infers the output shapes of blocks with 1, 2, 3, ... arrays."""
    counts = ray.data.from_items([{"count": count} for count in range(1, BLOCK_ARRAYS + 1)])
    results = counts.map_batches(ShapeInferrer, fn_constructor_args=(address,), batch_size=100, **RESOURCES)
    rows = results.take_all()
    np.testing.assert_array_equal([row["elements"] for row in rows], [row["count"] * np.prod(SHAPE) for row in rows])
    print(f"{len(rows)} shapes inferred, none rejected")


def reshape_arrays(address: str) -> None:
    """Reshapes all arrays, and compares every element of the results."""
    arrays = ray.data.range_tensor(
        ARRAYS, shape=SHAPE, override_num_blocks=8
    )  # every element of array i is the number i
    rows = arrays.map_batches(
        Reshaper, fn_constructor_args=(address,), batch_size=BLOCK_ARRAYS, zero_copy_batch=True, **RESOURCES
    )
    done, numbers = 0, set[int]()
    for block in rows.iter_batches(batch_size=BLOCK_ARRAYS):
        row = block["row"]
        np.testing.assert_array_equal(row, np.repeat(row[:, :1], np.prod(SHAPE), axis=1))
        numbers |= set(row[:, 0].tolist())
        done += len(row)
        print(f"\r{done} of {ARRAYS} arrays", end="", flush=True)
    np.testing.assert_array_equal(sorted(numbers), np.arange(ARRAYS))
    print(", all elements are equal")


def main(address: str) -> None:
    """Runs both steps on the cluster that Ray finds, or on this machine."""
    ray.init(log_to_driver=False)
    with Client(address) as client:
        client.wait_until_ready()
    infer_shapes(address)
    reshape_arrays(address)


if __name__ == "__main__":
    main(sys.argv[1])
