import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, Client

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


@pytest.fixture(scope="module", params=DTYPES, ids=lambda dtype: dtype.__name__)
def images(request: pytest.FixtureRequest) -> np.ndarray:
    # Here, because each process imports all test files, to find their tests, and this takes two seconds.
    from sklearn.datasets import load_digits  # noqa: PLC0415

    images: np.ndarray = load_digits().images.astype(request.param)
    return images


def test_the_example_runs_with_a_server_of_its_own():
    result = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)

    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["float32", "float16", "bfloat16"]


def test_digits_are_flattened(client: Client, images: np.ndarray):
    rows = client.static_reshape(images, [0, -1], special_zero=True)

    assert rows.shape == (1797, 64)
    assert rows.dtype == images.dtype
    assert rows.tobytes() == images.tobytes()


def test_digits_are_restored_by_a_target_known_at_run_time(client: Client, images: np.ndarray):
    rows = images.reshape(1797, 64)

    restored = client.dynamic_reshape(rows, np.array(images.shape, np.int32), special_zero=False)

    assert restored.shape == images.shape
    assert restored.tobytes() == images.tobytes()


def test_a_channels_last_view_is_read_in_logical_order(client: Client, images: np.ndarray):
    view = images.transpose(1, 2, 0).copy().transpose(2, 0, 1)
    assert not view.flags.c_contiguous

    flat = client.static_reshape(view, [-1], special_zero=False)

    assert flat.tobytes() == images.tobytes()


async def test_digits_pass_through_asyncio_as_well(server: ServerProcess, images: np.ndarray):
    async with AsyncClient(server.address) as client:
        rows = await client.static_reshape(images, [0, -1], special_zero=True)

    assert rows.tobytes() == images.tobytes()
