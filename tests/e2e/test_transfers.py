"""How the elements travel, and where they land: `transfer`, `copy`, `out` and `progress`."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from both_clients import CALLERS, CLIENTS, AnyClient, open_client
from server_processes import ServerProcess
from tensor_reshape.client import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import Array

WAYS = ["inline", "stream"]
SIX = np.arange(6, dtype=np.float32)
CHUNK_BYTES = 1000


@pytest.fixture(params=CALLERS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=CHUNK_BYTES) as client:
        yield client


def freeze(array: Array) -> Array:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("way", [*WAYS, "auto"])
def test_the_output_lands_where_the_caller_says(any_client: AnyClient, way: str):
    out = np.full((3, 2), -1, np.float32)
    assert any_client.static_reshape(SIX, [3, 2], transfer=way, out=out) is out
    np.testing.assert_array_equal(out, SIX.reshape(3, 2))


@pytest.mark.parametrize("way", WAYS)
def test_a_big_endian_array_lands_in_one_of_this_machines_order(any_client: AnyClient, way: str):
    out = np.empty(6, np.float32)
    assert any_client.static_reshape(SIX.astype(">f4"), [6], transfer=way, out=out).tolist() == SIX.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_output_and_a_scalar_land_too(any_client: AnyClient, way: str):
    for array, shape in ((np.empty((0, 3), np.float32), (5, 0)), (np.float32(1.5), ())):
        out = np.empty(shape, np.float32)
        assert any_client.static_reshape(array, shape, transfer=way, out=out) is out
    assert out == np.float32(1.5)


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
@pytest.mark.parametrize("out", WRONG_OUTS.values(), ids=WRONG_OUTS.keys())
def test_an_output_that_does_not_fit_is_no_place_to_land(any_client: AnyClient, way: str, out: Array):
    with pytest.raises(ValueError, match="out is a writable row-major array"):
        any_client.static_reshape(SIX, [6], transfer=way, out=out)


def test_a_column_major_output_is_no_place_to_land(any_client: AnyClient):
    with pytest.raises(ValueError, match="out is a writable row-major array"):
        any_client.static_reshape(SIX, [2, 3], transfer="stream", out=np.empty((2, 3), np.float32, "F"))


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "no such way": {"transfer": "pigeon"},
    "no such copy": {"copy": "always"},
    "never, and by itself": {"copy": "never"},
    "never, and inline": {"copy": "never", "transfer": "inline"},
    "never, and in chunks": {"copy": "never", "transfer": "stream"},
    "an output and a view": {"transfer": "view", "out": np.empty(6, np.float32)},
}


@pytest.mark.parametrize("how", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_contradiction_is_a_value_error(any_client: AnyClient, how: dict[str, Any]):
    with pytest.raises(ValueError, match=r"transfer|copy|out"):
        any_client.static_reshape(SIX, [6], **how)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_a_chunk_is_of_a_size_that_messages_have(kind: str, size: int):
    with pytest.raises(ValueError, match="chunk_bytes"), open_client(kind, "127.0.0.1:1", chunk_bytes=size):
        pass


def test_progress_goes_from_the_first_answer_to_the_last_byte(any_client: AnyClient):
    reports: list[tuple[int, int]] = []
    array = np.arange(10 * CHUNK_BYTES + 7, dtype=np.uint8)
    any_client.reshape(array, [-1], transfer="stream", progress=lambda *report: reports.append(report))
    assert [total for _, total in reports] == [array.nbytes] * len(reports)
    assert [arrived for arrived, _ in reports] == [*range(0, array.nbytes, CHUNK_BYTES), array.nbytes]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001])
def test_progress_ends_with_everything(any_client: AnyClient, way: str, size: int):
    reports: list[tuple[int, int]] = []
    any_client.reshape(np.zeros(size, np.uint8), [-1], transfer=way, progress=lambda *report: reports.append(report))
    assert (reports[-1], reports) == ((size, size), sorted(reports))


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_in_progress_ends_the_call_and_leaves_the_client_usable(any_client: AnyClient, way: str):
    def fail(arrived: int, total: int) -> None:
        if arrived:
            raise KeyError(total)

    array = np.zeros(100 * CHUNK_BYTES, np.uint8)
    for _ in range(3):
        with pytest.raises(KeyError, match=str(array.nbytes)):
            any_client.reshape(array, [-1], transfer=way, progress=fail)
    assert any_client.reshape(array, [-1], transfer=way).nbytes == array.nbytes


def test_a_view_is_the_callers_own_memory(any_client: AnyClient):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    view = any_client.static_reshape(array, [0, -1], special_zero=True, transfer="view")
    assert (view.shape, np.shares_memory(view, array)) == ((2, 12), True)
    array[0, 0, 0] = 99
    assert view[0, 0] == 99


def test_a_view_that_is_to_be_written_to_writes_to_the_callers_own_array(any_client: AnyClient):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    view = any_client.static_reshape(array, [0, -1], special_zero=True, transfer="view", writable=True)
    view[0, 0] = 99
    assert array[0, 0, 0] == 99


@pytest.mark.parametrize("copy", ["if_needed", "never"])
def test_strides_that_allow_a_view_are_viewed(any_client: AnyClient, copy: str):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)[::2]
    view = any_client.static_reshape(array, [2, 2, 3], transfer="view", copy=copy)
    assert np.shares_memory(view, array)
    np.testing.assert_array_equal(view, array.reshape(2, 2, 3), strict=True)


def test_strides_that_allow_no_view_are_copied(any_client: AnyClient):
    array = SIX.reshape(2, 3).T
    output = any_client.static_reshape(array, [6], transfer="view")
    np.testing.assert_array_equal(output, array.reshape(6), strict=True)


def test_strides_that_allow_no_view_are_refused_where_no_copy_is_made(any_client: AnyClient):
    with pytest.raises(InvalidRequestError) as caught:
        any_client.static_reshape(SIX.reshape(2, 3).T, [6], transfer="view", copy="never")
    assert caught.value.reason == Reason.VIEW_IMPOSSIBLE


def test_a_view_keeps_the_type_that_the_array_has(any_client: AnyClient):
    for dtype in (">f4", ml_dtypes.bfloat16):
        assert any_client.static_reshape(SIX.astype(dtype), [3, 2], transfer="view").dtype == dtype


def test_a_view_of_what_the_rules_refuse_is_refused(any_client: AnyClient):
    with pytest.raises(InvalidRequestError) as caught:
        any_client.static_reshape(SIX, [4], transfer="view")
    assert caught.value.reason == Reason.VOLUME_MISMATCH


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_view_sends_no_element(small_server: ServerProcess, kind: str):
    array = np.zeros(2**28, np.float32)  # pages that nobody touches take no memory
    with open_client(kind, small_server.address) as client:
        view = client.static_reshape(array, [2**14, -1], transfer="view", copy="never")
    assert (view.shape, view.ctypes.data) == ((2**14, 2**14), array.ctypes.data)
