"""How the elements travel, and where they land: `transfer`, `copy`, `out` and `progress`."""

from collections.abc import Iterator
from typing import Any, get_args

import ml_dtypes
import numpy as np
import pytest

from both_clients import CALLERS, CLIENTS, AnyClient, open_client
from server_processes import ServerProcess
from tensor_reshape.client import DataType, InvalidRequestError, PackedTensor, Reason
from tensor_reshape.client.transfers import Way
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_strategies import make_packable

WAYS = ["inline", "stream"]
SIX = np.arange(6, dtype=np.float32)
CHUNK_BYTES = 1000


@pytest.fixture(params=CALLERS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=CHUNK_BYTES) as client:
        yield client


@pytest.mark.parametrize("way", [*WAYS, "auto"])
def test_the_output_lands_in_out(any_client: AnyClient, way: str):
    for array, shape in (
        (SIX, (3, 2)),
        (SIX.astype(">f4"), (6,)),
        (np.empty((0, 3), np.float32), (5, 0)),
        (SIX[5], ()),
    ):
        out = np.full(shape, -1, np.float32)
        assert any_client.static_reshape(array, shape, transfer=way, out=out) is out
        np.testing.assert_array_equal(out, array.reshape(shape))


def freeze(array: Array) -> Array:
    array.flags.writeable = False
    return array


WRONG_OUTS: dict[str, Array] = {
    "another type": np.empty(6, np.int32),
    "a type of the same size": np.empty(6, np.uint32),
    "another byte order": np.empty(6, ">f4"),
    "another shape": np.empty((2, 3), np.float32),
    "too small": np.empty(5, np.float32),
    "read-only": freeze(np.empty(6, np.float32)),
    "with gaps": np.empty(12, np.float32)[::2],
}


@pytest.mark.parametrize("way", WAYS)
def test_an_output_that_does_not_fit_is_refused(any_client: AnyClient, way: str):
    for name, out in WRONG_OUTS.items():
        with pytest.raises(ValueError, match="out is a writable row-major array"):
            pytest.fail(f"{name}: {any_client.static_reshape(SIX, [6], transfer=way, out=out)}")
    with pytest.raises(ValueError, match="out is a writable row-major array"):
        any_client.static_reshape(SIX, [2, 3], transfer=way, out=np.empty((2, 3), np.float32, "F"))


def test_a_contradiction_is_a_value_error(any_client: AnyClient):
    contradictions: list[dict[str, Any]] = [
        {"transfer": "pigeon"},
        {"copy": "always"},
        *({"copy": "never", **how} for how in ({}, {"transfer": "inline"}, {"transfer": "stream"})),
        {"transfer": "view", "out": np.empty(6, np.float32)},
    ]
    for how in contradictions:
        with pytest.raises(ValueError, match=r"transfer|copy|out"):
            pytest.fail(f"{how}: {any_client.static_reshape(SIX, [6], **how)}")


def test_progress_goes_from_the_first_answer_to_the_last_byte(any_client: AnyClient):
    reports: list[tuple[int, int]] = []
    array = np.arange(10 * CHUNK_BYTES + 7, dtype=np.uint8)
    any_client.reshape(array, [-1], transfer="stream", progress=lambda *report: reports.append(report))
    assert [total for _, total in reports] == [array.nbytes] * len(reports)
    assert [arrived for arrived, _ in reports] == [*range(0, array.nbytes, CHUNK_BYTES), array.nbytes]


@pytest.mark.parametrize("way", WAYS)
def test_progress_ends_with_all_bytes(any_client: AnyClient, way: str):
    for size in (0, 1, 999, 1000, 1001):
        reports: list[tuple[int, int]] = []
        any_client.reshape(np.zeros(size, "u1"), [-1], transfer=way, progress=lambda *at: reports.append(at))  # noqa: B023
        assert (reports[-1], reports) == ((size, size), sorted(reports))


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_in_progress_ends_only_its_call(any_client: AnyClient, way: str):
    def fail(arrived: int, total: int) -> None:
        if arrived:
            raise KeyError(total)

    array = np.zeros(100 * CHUNK_BYTES, np.uint8)
    for _ in range(3):
        with pytest.raises(KeyError, match=str(array.nbytes)):
            any_client.reshape(array, [-1], transfer=way, progress=fail)
    assert any_client.reshape(array, [-1], transfer=way).nbytes == array.nbytes


def test_a_view_is_the_memory_of_the_array(any_client: AnyClient):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    view = any_client.static_reshape(array, [0, -1], special_zero=True, transfer="view")
    assert view.shape == (2, 12)
    array[0, 0, 0] = 99
    assert view[0, 0] == 99
    writable = any_client.static_reshape(array, [0, -1], special_zero=True, transfer="view", writable=True)
    writable[0, 0] = 77
    assert array[0, 0, 0] == 77


def test_strides_decide_whether_an_array_is_viewed_copied_or_refused(any_client: AnyClient):
    rows = np.arange(24, dtype=np.float32).reshape(4, 6)[::2]
    for copy in ("if_needed", "never"):
        view = any_client.static_reshape(rows, [2, 2, 3], transfer="view", copy=copy)
        assert np.shares_memory(view, rows)
        np.testing.assert_array_equal(view, rows.reshape(2, 2, 3), strict=True)
    transposed = SIX.reshape(2, 3).T
    output = any_client.static_reshape(transposed, [6], transfer="view")
    np.testing.assert_array_equal(output, transposed.reshape(6), strict=True)
    with pytest.raises(InvalidRequestError) as caught:
        any_client.static_reshape(transposed, [6], transfer="view", copy="never")
    assert caught.value.reason == Reason.VIEW_IMPOSSIBLE


def test_a_view_keeps_the_type_and_the_rules(any_client: AnyClient):
    for dtype in (">f4", ml_dtypes.bfloat16):
        assert any_client.static_reshape(SIX.astype(dtype), [3, 2], transfer="view").dtype == dtype
    with pytest.raises(InvalidRequestError) as caught:
        any_client.static_reshape(SIX, [4], transfer="view")
    assert caught.value.reason == Reason.VOLUME_MISMATCH


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_view_sends_no_element(small_server: ServerProcess, kind: str):
    array = np.zeros(2**28, np.float32)  # pages that are not written to take no memory
    with open_client(kind, small_server.address) as client:
        view = client.static_reshape(array, [2**14, -1], transfer="view", copy="never")
    assert (view.shape, view.ctypes.data) == ((2**14, 2**14), array.ctypes.data)


PACKED = [data_type for data_type in DTYPES if data_type.is_packed]


def make_packed(data_type: DataType) -> Array:
    """Returns 5 x 7 x 3 elements, so the last byte is not full."""
    return make_packable(data_type, np.arange(105) * 7).reshape(5, 7, 3)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("way", get_args(Way))
def test_elements_below_one_byte_survive_in_every_layout(server: ServerProcess, kind: str, way: Way):
    with open_client(kind, server.address, chunk_bytes=7) as client:
        for data_type in PACKED:
            array = make_packed(data_type)
            for data in (array, array.T, array[::2], np.broadcast_to(array[:1], (4, 7, 3)), array[:0], array[0, 0, 0]):
                output = client.reshape(data, [-1, 1], transfer=way)
                np.testing.assert_array_equal(output, data.reshape(-1, 1), str(data_type), strict=True)


@pytest.mark.parametrize("way", WAYS)
def test_elements_below_one_byte_land_and_are_counted_packed(any_client: AnyClient, way: Way):
    array, out, reports = make_packed(DataType.I4), np.empty((7, 15), ml_dtypes.int4), list[tuple[int, int]]()
    progress = {"progress": lambda *at: reports.append(at)}
    assert any_client.reshape(array, [7, -1], transfer=way, out=out, **progress) is out
    np.testing.assert_array_equal(out, array.reshape(7, 15), strict=True)
    assert reports[-1] == (53, 53)


def test_a_packed_tensor_is_the_array_of_its_bytes(any_client: AnyClient):
    tensor: object = any_client.reshape(PackedTensor(DataType.U4, [5], b"\x21\x43\xf5"), [5, 1])
    assert tensor == PackedTensor(DataType.U4, [5, 1], b"\x21\x43\xf5")
    array = np.array([1, 2, 3, 4, 5], ml_dtypes.uint4)
    assert any_client.reshape(array, [5, 1]).tolist() == [[1], [2], [3], [4], [5]]
    for data in (make_packed(DataType.F4E2M1), PackedTensor(DataType.NF4, [2], b"\x21")):
        with pytest.raises(InvalidRequestError) as caught:
            any_client.static_reshape(data, [-1])  # which takes three types of floats
        assert caught.value.reason == Reason.DATA_TYPE_UNSUPPORTED
