"""Sends scikit-learn's digits, 1797 images of 8 x 8, through a server and checks every element that comes back.

Run it against a server of your own (`python examples/digits.py HOST:PORT`), or without an argument: it then starts one
in a process of its own, on a unix socket.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ml_dtypes
import numpy as np
from sklearn.datasets import load_digits

from tensor_reshape.client import Client


@contextmanager
def run_server() -> Iterator[str]:
    """Runs a server until the end of the block and gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{Path(folder, 'server.sock')}"
        process = subprocess.Popen([sys.executable, "-m", "tensor_reshape.server", "--listen", address])
        try:
            yield address
        finally:
            process.terminate()
            process.wait()


def push_digits(client: Client, dtype: type[np.generic]) -> None:
    """Flattens the images, restores them, and sends them as a channels-last view; each answer is checked."""
    images = load_digits().images.astype(dtype)

    rows = client.static_reshape(images, [0, -1], special_zero=True)
    np.testing.assert_array_equal(rows, images.reshape(len(images), 64))

    target = np.array(images.shape, np.int32)  # known at run time only
    restored = client.dynamic_reshape(rows, target, special_zero=False)
    np.testing.assert_array_equal(restored, images)

    # One image of 1797 channels, stored channels-last: a view, sent as it lies in memory.
    channels_last = images.transpose(1, 2, 0).copy().transpose(2, 0, 1)
    flat = client.static_reshape(channels_last, [-1], special_zero=False)
    np.testing.assert_array_equal(flat, images.reshape(-1))

    print(f"{dtype.__name__}: {images.shape} -> {rows.shape} -> {restored.shape}, every element as it was")


def main() -> None:
    """Pushes the digits in each type that StaticReshape takes."""
    if len(sys.argv) > 1:
        _push_all(sys.argv[1])
    else:
        with run_server() as address:
            _push_all(address)


def _push_all(address: str) -> None:
    with Client(address) as client:
        client.wait_until_ready()
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            push_digits(client, dtype)


if __name__ == "__main__":
    main()
