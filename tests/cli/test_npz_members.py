"""Members of .npz files from numpy. `test_destinations` has files from the command line."""

import io
import zipfile
import zlib
from typing import Any

import numpy as np
import pytest

from tensor_reshape.cli.npy_headers import Placement
from tensor_reshape.cli.npz_members import choose_member, read_npz

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def save_compressed(array: np.ndarray[Any, Any]) -> io.BytesIO:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=array)
    return buffer


def test_uncompressed_npz_member_is_read_without_a_copy():
    buffer = io.BytesIO()
    np.savez(buffer, a=ARRAY[:1], b=ARRAY)
    placement = read_npz(buffer, "b")
    assert isinstance(placement, Placement)
    np.testing.assert_array_equal(placement.view(buffer.getbuffer()), ARRAY, strict=True)


def test_compressed_npz_member_is_read():
    for array in (ARRAY, np.asfortranarray(ARRAY), ARRAY[:0]):
        read = read_npz(save_compressed(array), "a")
        assert isinstance(read, np.ndarray)
        np.testing.assert_array_equal(read, array, strict=True)


def test_damaged_npz_archive_raises_an_error():
    raw = bytearray(save_compressed(np.arange(1000)).getvalue())
    raw[400] ^= 0xFF
    with pytest.raises((zipfile.BadZipFile, zlib.error)):
        read_npz(io.BytesIO(bytes(raw)), "a")
    with pytest.raises(zipfile.BadZipFile):
        read_npz(io.BytesIO(b"PK\x03\x04 not a zip"), "")


def rewrite(header_of: tuple[int, ...], compression: int) -> io.BytesIO:
    """Returns an archive with a member whose header has the wrong shape."""
    header, buffer = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": header_of})
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("a.npy", header.getvalue() + ARRAY.tobytes())
    return buffer


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("dims", [(7,), (2**50,), (2**70,)], ids=str)
def test_npz_header_with_more_elements_than_the_member_is_rejected(dims: tuple[int, ...], compression: int):
    with pytest.raises(ValueError, match="the header announces"):
        read_npz(rewrite(dims, compression), "a")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_npz_compression_other_than_deflate_is_rejected(compression: int):
    with pytest.raises(ValueError, match="a compression that numpy does not use"):
        read_npz(rewrite((6,), compression), "a")


def test_npz_member_name_is_optional_for_a_single_array():
    assert choose_member(["a"], "") == "a"
    for names, member, message in (
        (["a", "b"], "", "has several arrays: add a colon and one of the names a, b"),
        (["a"], "c", "has no array 'c'; it has a"),
        ([], "", "contains no array"),
        ([str(number) for number in range(25)], "", "18, 19 and 5 more"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_member(names, member)
