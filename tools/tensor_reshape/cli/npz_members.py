"""Reads and writes members of .npz files, which are zip archives of .npy files.

`numpy.savez` does not compress its members, so they are mapped like files, and their checksums are not verified.
Members from `numpy.savez_compressed` are decompressed and verified as a whole.
"""

import struct
import zipfile
from collections.abc import Iterable
from typing import IO

from tensor_reshape.cli.npy_headers import FormatError, Placement, read_elements, read_npy
from tensor_reshape.wire.arrays import Array

DEFAULT_MEMBER = "output"

_SUFFIX = ".npy"
# This struct reads the signature, the length of the name and the length of the extra field from a zip header.
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy uses only these two compression methods
_SIGNATURE = b"PK\x03\x04"
_LISTED = 20  # an error message lists at most 20 members, because the archive of a model may have thousands


class MemberError(ValueError):
    """A file does not have the named array, or has several arrays although the user has named none.

    The text of the error is written after the name of the file.
    """


def read_npz(file: IO[bytes], member: str) -> Placement | Array:
    """Returns the position of a member, or the array itself if it is compressed.

    Raises:
        MemberError: the member does not exist, or the user has named none of several members.
        FormatError: the member is not an array.
        zipfile.BadZipFile: the file is not a zip archive.
        OSError: the file cannot be read.
        NotImplementedError: Python does not support this kind of archive.
    """
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]
        info = archive.getinfo(choose_member(names, member) + _SUFFIX)
        if info.flag_bits & 1:
            message = f"{member} is encrypted"
            raise FormatError(message)
        if info.compress_type not in _COMPRESSIONS:
            message = f"{member} has a compression that numpy does not use"
            raise FormatError(message)
        if info.compress_type != zipfile.ZIP_STORED:
            with archive.open(info) as stream:
                return _read_compressed(stream, info.file_size)
    return _place(file, info)


def choose_member(names: list[str], member: str) -> str:
    """Returns the member that the user has named, or the only member.

    Raises:
        MemberError: the member does not exist, or the user has named none of several members. The message lists the
            members of the file.
    """
    if member in names:
        return member
    if not member and len(names) == 1:
        return names[0]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if not names:
        message = "contains no array"
    elif member:
        message = f"has no array {member!r}; it has {listed}"
    else:
        message = f"has several arrays: add a colon and one of the names {listed}"
    raise MemberError(message)


def write_npz(file: IO[bytes], member: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Writes an .npz archive with one uncompressed member."""
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        archive.open((member or DEFAULT_MEMBER) + _SUFFIX, "w", force_zip64=True) as stream,
    ):
        for piece in pieces:
            stream.write(piece)


def _read_compressed(stream: IO[bytes], size: int) -> Array:
    placement = read_npy(stream)
    if placement.offset + placement.nbytes != size:
        message = f"the header announces {placement.nbytes} bytes of elements, but {size - placement.offset} follow"
        raise FormatError(message)
    return read_elements(placement, stream)


def _place(file: IO[bytes], info: zipfile.ZipInfo) -> Placement:
    """Returns the position of an uncompressed member in the file."""
    file.seek(info.header_offset)
    signature, *lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != _SIGNATURE:
        message = "the archive's directory points to a missing member"
        raise zipfile.BadZipFile(message)
    start = info.header_offset + _LOCAL_HEADER.size + sum(lengths)
    file.seek(start)
    placement = read_npy(file)
    if placement.offset + placement.nbytes > start + info.file_size:
        message = f"the header announces {placement.nbytes} bytes of elements, more than the member has"
        raise FormatError(message)
    return placement
