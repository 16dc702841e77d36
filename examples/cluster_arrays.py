"""Reshapes arrays that live on a Ray cluster: Ray Data brings them to the SDK block by block, with progress.

First all shapes are asked for (`BatchInferShape`): no element travels, and what is rejected is known before anything is
moved. Then the blocks are mapped (`Reshape`), by actors wherever the data is, each with a client of its own.

Run it where Ray is installed: `python examples/cluster_arrays.py TARGET`, with what `Client` takes. `scripts/verify ray
example` makes such an environment, and starts a server on this machine.
"""

import sys

import numpy as np
import numpy.typing as npt
import ray
import ray.data

from tensor_reshape.client import Client, ReshapeError, ShapeQuery

Block = dict[str, npt.NDArray[np.int64]]

ARRAYS, SHAPE, BLOCK_ARRAYS = 20_000, (8, 8, 3), 500
# Actors that wait for servers need no core of their own; with one each, two would leave none to read the data with.
PLACES = {"compute": ray.data.ActorPoolStrategy(size=2), "num_cpus": 0}
TARGET = (0, -1)  # an array of each block becomes a row


class Asker:
    """Asks for shapes; Ray Data makes one of it for each of its actors: a client cannot be sent to another process."""

    def __init__(self, address: str) -> None:
        """Connects to the servers."""
        self._client = Client(address)

    def __call__(self, block: Block) -> Block:
        """Returns what comes of each number of arrays: the output's volume, and 0 where it is rejected."""
        shapes = [(int(count), *SHAPE) for count in block["count"]]
        queries = [ShapeQuery(data_shape=shape, shape=TARGET, special_zero=True) for shape in shapes]
        answers = self._client.infer_shapes(queries)
        volumes = [0 if isinstance(answer, ReshapeError) else int(np.prod([*answer])) for answer in answers]
        return {"count": block["count"], "volume": np.array(volumes)}


class Reshaper:
    """Reshapes the arrays of a block at once."""

    def __init__(self, address: str) -> None:
        """Connects to the servers."""
        self._client = Client(address)

    def __call__(self, block: Block) -> Block:
        """Returns each array as a row."""
        return {"row": np.asarray(self._client.reshape(block["data"], TARGET, special_zero=True))}


def ask_for_shapes(address: str) -> None:
    """Asks what would come of blocks of 1, 2, 3, ... arrays."""
    counts = ray.data.from_items([{"count": count} for count in range(1, BLOCK_ARRAYS + 1)])
    answers = counts.map_batches(Asker, fn_constructor_args=(address,), batch_size=100, **PLACES)
    rows = answers.take_all()
    np.testing.assert_array_equal([row["volume"] for row in rows], [row["count"] * np.prod(SHAPE) for row in rows])
    print(f"{len(rows)} shapes asked for, none rejected")


def reshape_arrays(address: str) -> None:
    """Maps all arrays, and checks every element that comes back."""
    arrays = ray.data.range_tensor(ARRAYS, shape=SHAPE, override_num_blocks=8)  # array i is full of the number i
    rows = arrays.map_batches(
        Reshaper, fn_constructor_args=(address,), batch_size=BLOCK_ARRAYS, zero_copy_batch=True, **PLACES
    )
    done, numbers = 0, set[int]()
    for block in rows.iter_batches(batch_size=BLOCK_ARRAYS):
        row = block["row"]
        np.testing.assert_array_equal(row, np.repeat(row[:, :1], np.prod(SHAPE), axis=1))
        numbers |= set(row[:, 0].tolist())
        done += len(row)
        print(f"\r{done} of {ARRAYS} arrays", end="", flush=True)
    np.testing.assert_array_equal(sorted(numbers), np.arange(ARRAYS))
    print(", every element as it was")


def main(address: str) -> None:
    """Runs both on the cluster that Ray finds, or on this machine."""
    ray.init(log_to_driver=False)
    with Client(address) as client:
        client.wait_until_ready()
    ask_for_shapes(address)
    reshape_arrays(address)


if __name__ == "__main__":
    main(sys.argv[1])
