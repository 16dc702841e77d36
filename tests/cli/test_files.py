"""`.npy` files and pipes."""

import io
import json
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import pytest

from command_line import SIX, ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.files import ArrayFiles, read_array
from tensor_reshape.client import DataType
from tensor_reshape.wire.arrays import DTYPES

NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]


def save(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def save_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def test_pipes_are_written_as_a_dash(server: ServerProcess):
    outcome = ask(server, "static", "-", "--shape", "6", "--no-special-zero", stdin=save(SIX))
    np.testing.assert_array_equal(np.load(io.BytesIO(outcome.output)), SIX.reshape(6), strict=True)


def test_a_fortran_ordered_file_is_read_in_its_logical_order(server: ServerProcess):
    outcome = ask(server, "static", "-", "--shape", "6", "--no-special-zero", stdin=save(np.asfortranarray(SIX)))
    np.testing.assert_array_equal(np.load(io.BytesIO(outcome.output)), SIX.reshape(6), strict=True)


def test_json_describes_the_file_that_was_written(file: Path, output: Path, server: ServerProcess):
    outcome = ask(server, "static", file, "--shape", "6", "--no-special-zero", "-o", output, "--json")
    assert json.loads(outcome.output) == {"shape": [6], "data_type": "f32", "output": str(output)}


def test_json_and_an_array_do_not_share_standard_output(file: Path, server: ServerProcess):
    assert ask(server, "static", file, "--shape", "6", "--no-special-zero", "--json").code == 2


def test_bfloat16_is_named_because_npy_cannot(tmp_path: Path, server: ServerProcess):
    array = np.arange(6).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "data.npy", array)
    outcome = ask(server, "static", tmp_path / "data.npy", "--data-type", "bf16", "--shape", "3,2", "--no-special-zero")
    assert np.load(io.BytesIO(outcome.output)).view(ml_dtypes.bfloat16).tolist() == array.reshape(3, 2).tolist()


def test_a_data_type_of_another_size_than_the_items_is_refused(file: Path, server: ServerProcess):
    outcome = ask(server, "static", file, "--data-type", "bf16", "--shape", "6", "--no-special-zero")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not an array",
        save(SIX)[:-1],
        save(np.array([{}], dtype=object)),
        b"PK\x03\x04 not a zip",
        save_header((2**50,)),
        save_header((2**70,)),
        save_header((-1,)),
    ],
    ids=["empty", "text", "cut short", "pickled", "a broken zip", "8 PiB", "more than s64", "a negative dim"],
)
def test_input_that_is_no_array_is_one_line(raw: bytes):
    outcome = run_command("static", "-", "--shape", "6", "--no-special-zero", *NOBODY, stdin=raw)
    assert (outcome.code, outcome.output, len(outcome.errors)) == (1, b"", 1)


def test_a_missing_file_is_one_line():
    outcome = run_command("static", "missing.npy", "--shape", "6", "--no-special-zero", *NOBODY)
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_an_output_that_cannot_be_written_is_one_line(file: Path, tmp_path: Path, server: ServerProcess):
    outcome = ask(server, "static", file, "--shape", "6", "--no-special-zero", "-o", tmp_path / "no" / "where.npy")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_elements_below_one_byte_are_named_because_npy_cannot(tmp_path: Path, server: ServerProcess):
    array = np.arange(-3, 3).astype(ml_dtypes.int4)
    np.save(tmp_path / "data.npy", array)
    outcome = ask(server, "reshape", tmp_path / "data.npy", "--data-type", "i4", "--shape", "3,2", "--no-special-zero")
    assert np.load(io.BytesIO(outcome.output)).view(ml_dtypes.int4).tolist() == array.reshape(3, 2).tolist()


NF4 = ("--data-type", "nf4", "--dims", "2,3", "--shape", "3,2", "--no-special-zero")


def test_packed_bytes_are_read_and_written_as_they_are(tmp_path: Path, server: ServerProcess):
    outcome = ask(server, "reshape", "-", *NF4, "-o", tmp_path / "output", "--json", stdin=b"\x10\x32\xf4")
    assert json.loads(outcome.output) == {"shape": [3, 2], "data_type": "nf4", "output": str(tmp_path / "output")}
    assert (tmp_path / "output").read_bytes() == b"\x10\x32\xf4"


def test_packed_bytes_of_another_length_are_refused(server: ServerProcess):
    outcome = ask(server, "reshape", "-", *NF4, stdin=b"\x10\x32")
    assert (outcome.code, outcome.output, len(outcome.errors)) == (3, b"", 1)
    assert "[DATA_SIZE_MISMATCH]" in outcome.errors[0]


@pytest.mark.parametrize("named", [(), ("--data-type", "f32")], ids=str)
def test_dims_go_with_a_type_that_is_packed(file: Path, named: tuple[str, ...]):
    outcome = run_command("reshape", file, *named, "--dims", "2,3", "--shape", "6", "--no-special-zero", *NOBODY)
    assert (outcome.code, "below one byte" in outcome.errors[-1]) == (2, True)


def test_missing_packed_bytes_are_one_line():
    outcome = run_command("reshape", "missing", *NF4, *NOBODY)
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_type_that_no_array_has_asks_for_the_shape_whatever_the_file_is(tmp_path: Path):
    (tmp_path / "packed").write_bytes(b"\x10\x32\x54")
    with pytest.raises(click.UsageError, match="no array holds nf4: give its packed bytes"):
        open_files(tmp_path / "packed", DataType.NF4).read()


@pytest.mark.parametrize(("dtype", "name"), [(">f4", "f64"), ("<i4", "f32")])
def test_a_data_type_never_overrides_that_of_the_file(server: ServerProcess, tmp_path: Path, dtype: str, name: str):
    np.save(tmp_path / "data.npy", np.arange(6, dtype=dtype))
    outcome = ask(server, "reshape", tmp_path / "data.npy", "--data-type", name, "--shape", "6", "--special-zero")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_big_endian_file_keeps_its_values_with_its_data_type_named(server: ServerProcess, tmp_path: Path):
    np.save(tmp_path / "data.npy", np.arange(6, dtype=">f4"))
    outcome = ask(server, "static", tmp_path / "data.npy", "--data-type", "f32", "--shape", "6", "--special-zero")
    assert np.load(io.BytesIO(outcome.output)).tolist() == [0, 1, 2, 3, 4, 5]


def open_files(path: Path, data_type: DataType | None = None) -> ArrayFiles:
    return ArrayFiles(source=str(path), output=str(path), data_type=data_type, as_json=False)


@pytest.mark.parametrize("data_type", DTYPES, ids=str)
def test_every_data_type_is_read_as_it_was_written_where_it_is_named(data_type: DataType, tmp_path: Path):
    array = np.arange(6).astype(DTYPES[data_type]).reshape(2, 3)
    files = open_files(tmp_path / "array.npy", data_type)
    files.write(array)
    twin = files.read()
    assert (twin.dtype, twin.shape, twin.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_a_type_that_the_file_names_needs_no_other_name(file: Path):
    np.testing.assert_array_equal(open_files(file).read(), SIX, strict=True)


def test_a_file_that_is_none_is_named(tmp_path: Path):
    with pytest.raises(click.ClickException, match=r"none\.npy is not a readable"):
        read_array(str(tmp_path / "none.npy"))
