"""The arguments `transfer`, `copy`, `out` and `progress`."""

from collections.abc import Iterator
from typing import get_args

import ml_dtypes
import numpy as np
import pytest

from both_clients import CALLERS, CLIENTS, AnyClient, open_client
from server_processes import ServerProcess
from strategies import make_packable
from tensor_reshape.client import Client, DataType
from tensor_reshape.client.transfers import Way
from tensor_reshape.wire.arrays import DTYPES, Array

WAYS: tuple[Way, ...] = ("inline", "stream")
SIX = np.arange(6, dtype=np.float32)
CHUNK_BYTES = 1000
PACKED = [data_type for data_type in DTYPES if data_type.is_packed]


def make_packed(data_type: DataType) -> Array:
    """Returns 5 x 7 x 3 elements, so that the last byte is only partly used."""
    return make_packable(data_type, np.arange(105) * 7).reshape(5, 7, 3)


@pytest.fixture(params=CALLERS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=CHUNK_BYTES) as client:
        yield client


@pytest.mark.parametrize("way", [*WAYS, "auto"])
def test_reshape_output_is_written_to_the_out_array(any_client: AnyClient, way: str):
    for array, shape, out_type in (
        (SIX, (3, 2), np.float32),
        (SIX.astype(">f4"), (6,), np.float32),
        (np.empty((0, 3), np.float32), (5, 0), np.float32),
        (SIX[5], (), np.float32),
        (make_packed(DataType.I4), (7, 15), ml_dtypes.int4),
    ):
        out = np.ones(shape, out_type)
        assert any_client.reshape(array, shape, transfer=way, out=out) is out
        np.testing.assert_array_equal(out, array.reshape(shape))


def freeze(array: Array) -> Array:
    array.flags.writeable = False
    return array


# requested shape, out
WRONG_OUTS: dict[str, tuple[list[int], Array]] = {
    "another type": ([6], np.empty(6, np.int32)),
    "a type of the same size": ([6], np.empty(6, np.uint32)),
    "another byte order": ([6], np.empty(6, ">f4")),
    "another shape": ([6], np.empty((2, 3), np.float32)),
    "too small": ([6], np.empty(5, np.float32)),
    "read-only": ([6], freeze(np.empty(6, np.float32))),
    "with gaps": ([6], np.empty(12, np.float32)[::2]),
    "column-major": ([2, 3], np.empty((2, 3), np.float32, "F")),
}


@pytest.mark.parametrize("way", WAYS)
def test_unsuitable_out_array_is_rejected(client: Client, way: Way):
    for name, (target, out) in WRONG_OUTS.items():
        with pytest.raises(ValueError, match="pass a writable row-major array"):
            pytest.fail(f"{name}: {client.static_reshape(SIX, target, special_zero=False, transfer=way, out=out)}")


@pytest.mark.parametrize("way", WAYS)
def test_progress_callback_ends_with_all_bytes(any_client: AnyClient, way: Way):
    for size in (0, 1, 999, 1000, 1001, 10_007):
        reports: list[tuple[int, int]] = []
        any_client.reshape(np.zeros(size, "u1"), [-1], transfer=way, progress=lambda *at: reports.append(at))  # noqa: B023
        assert (reports[-1], reports) == ((size, size), sorted(reports))
        assert {total for _, total in reports} == {size}
        if way == "stream":
            assert [arrived for arrived, _ in reports] == sorted({*range(0, size, CHUNK_BYTES), size})


@pytest.mark.parametrize("way", WAYS)
def test_exception_in_a_progress_callback_ends_only_its_call(any_client: AnyClient, way: str):
    def fail(arrived: int, total: int) -> None:
        if arrived:
            raise KeyError(total)

    array = np.zeros(100 * CHUNK_BYTES, np.uint8)
    for _ in range(3):
        with pytest.raises(KeyError, match=str(array.nbytes)):
            any_client.reshape(array, [-1], transfer=way, progress=fail)
    assert any_client.reshape(array, [-1], transfer=way).nbytes == array.nbytes


@pytest.mark.parametrize("kind", CLIENTS)
def test_view_transfer_sends_no_elements(small_server: ServerProcess, kind: str):
    array = np.zeros(2**28, np.float32)  # pages that are never written need no memory
    with open_client(kind, small_server.address) as client:
        view = client.static_reshape(array, [2**14, -1], transfer="view", copy="never")
    assert (view.shape, view.ctypes.data) == ((2**14, 2**14), array.ctypes.data)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("way", get_args(Way))
def test_elements_below_one_byte_are_reshaped_in_every_layout(server: ServerProcess, kind: str, way: Way):
    with open_client(kind, server.address, chunk_bytes=7) as client:
        for data_type in PACKED:
            array = make_packed(data_type)
            for data in (array, array.T, array[::2], np.broadcast_to(array[:1], (4, 7, 3)), array[:0], array[0, 0, 0]):
                output = client.reshape(data, [-1, 1], transfer=way)
                np.testing.assert_array_equal(output, data.reshape(-1, 1), str(data_type), strict=True)
