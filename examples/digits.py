"""Sends scikit-learn's digits, 1797 images of 8 x 8, through a server and compares every element of the results.

Run it with the address of your server: `python examples/digits.py HOST:PORT`. Without an argument, the program starts a
server in another process, on a unix socket.
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
    """Runs a server until the end of the block, and yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{Path(folder, 'server.sock')}"
        process = subprocess.Popen([sys.executable, "-m", "tensor_reshape.server", "--listen", address])
        try:
            yield address
        finally:
            process.terminate()
            process.wait()


def push_digits(client: Client, dtype: type[np.generic]) -> None:
    """Flattens the images, restores them, sends them as a channels-last view, and compares each result."""
    images = load_digits().images.astype(dtype)

    rows = client.static_reshape(images, [0, -1], special_zero=True)
    np.testing.assert_array_equal(rows, images.reshape(len(images), 64))

    shape = np.array(images.shape, np.int32)  # known only at run time
    restored = client.dynamic_reshape(rows, shape, special_zero=False)
    np.testing.assert_array_equal(restored, images)

    # One image with 1797 channels, stored channels-last: the SDK sends this view with its strides, without a copy.
    channels_last = images.transpose(1, 2, 0).copy().transpose(2, 0, 1)
    flat = client.static_reshape(channels_last, [-1], special_zero=False)
    np.testing.assert_array_equal(flat, images.reshape(-1))

    print(f"{dtype.__name__}: {images.shape} -> {rows.shape} -> {restored.shape}, all elements are equal")


def main() -> None:
    """Sends the digits in each type that StaticReshape supports."""
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
