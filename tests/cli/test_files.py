"""`.npy` files and pipes."""

import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from command_line import SIX, ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.files import ArrayFiles
from tensor_reshape.cli.safetensors_headers import build_safetensors
from tensor_reshape.cli.sources import open_source
from tensor_reshape.client import DataType
from tensor_reshape.wire.arrays import DTYPES, Array
from terminals import run_on_terminal

PROGRAM = Path(sys.executable).parent / "tensor-reshape"
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
    outcome = run_command(
        "reshape", tmp_path / "packed", "--data-type", "nf4", "--shape", "6", "--no-special-zero", *NOBODY
    )
    assert (outcome.code, "no array holds nf4: give its packed bytes" in outcome.errors[-1]) == (2, True)


@pytest.mark.parametrize(("dtype", "name"), [(">f4", "f64"), ("<i4", "f32")])
def test_a_data_type_never_overrides_that_of_the_file(server: ServerProcess, tmp_path: Path, dtype: str, name: str):
    np.save(tmp_path / "data.npy", np.arange(6, dtype=dtype))
    outcome = ask(server, "reshape", tmp_path / "data.npy", "--data-type", name, "--shape", "6", "--special-zero")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_big_endian_file_keeps_its_values_with_its_data_type_named(server: ServerProcess, tmp_path: Path):
    np.save(tmp_path / "data.npy", np.arange(6, dtype=">f4"))
    outcome = ask(server, "static", tmp_path / "data.npy", "--data-type", "f32", "--shape", "6", "--special-zero")
    assert np.load(io.BytesIO(outcome.output)).tolist() == [0, 1, 2, 3, 4, 5]


def test_the_file_that_is_read_is_not_written(file: Path, tmp_path: Path):
    (tmp_path / "link.npy").hardlink_to(file)
    before = file.read_bytes()
    outcome = run_command("static", file, "-o", tmp_path / "link.npy", "--shape", "6", "--no-special-zero", *NOBODY)
    assert (outcome.code, "is the file that is read" in outcome.errors[-1]) == (2, True)
    assert file.read_bytes() == before


def test_a_refusal_leaves_the_old_output_and_nothing_else(file: Path, output: Path, server: ServerProcess):
    output.write_text("old")
    assert ask(server, "static", file, "-o", output, "--shape", "5", "--no-special-zero").code == 3
    assert output.read_text() == "old"
    assert sorted(path.name for path in output.parent.iterdir()) == ["data.npy", "output.npy"]


def test_a_call_without_an_answer_leaves_nothing(file: Path, output: Path):
    assert run_command("static", file, "-o", output, "--shape", "6", "--no-special-zero", *NOBODY).code == 5
    assert [path.name for path in output.parent.iterdir()] == ["data.npy"]


@pytest.mark.parametrize("size", [6, 2**20], ids=["inline", "stream"])
@pytest.mark.parametrize("target", ["out.npy", "out.npz:x", "out.safetensors:x"])
@pytest.mark.parametrize("source", ["in.npy", "in.npz", "in.npz:b", "in.safetensors:b"])
def test_every_format_goes_into_every_other(  # both ways that elements travel
    server: ServerProcess, tmp_path: Path, source: str, target: str, size: int
):
    array: Array = np.arange(size, dtype=np.float32)
    np.save(tmp_path / "in.npy", array)
    np.savez(tmp_path / "in.npz", **({"b": array} if source == "in.npz" else {"a": array[:1], "b": array}))  # type: ignore[arg-type]
    safetensors.numpy.save_file({"a": array[:1], "b": array}, tmp_path / "in.safetensors")

    outcome = ask(
        server, "static", tmp_path / source, "-o", tmp_path / target, "--shape=2,-1", "--no-special-zero", "--json"
    )

    assert (outcome.code, json.loads(outcome.output)["shape"]) == (0, [2, size // 2])
    path = tmp_path / target.partition(":")[0]
    if path.suffix == ".safetensors":
        written = safetensors.numpy.load_file(path)["x"]
    else:
        written = np.load(path) if path.suffix == ".npy" else np.load(path)["x"]
    np.testing.assert_array_equal(written, array.reshape(2, -1), strict=True)


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2", "f8e8m0"])
def test_small_floats_go_through_safetensors_with_their_names(server: ServerProcess, tmp_path: Path, name: str):
    data_type = DataType[name.upper()]
    array = np.arange(6, dtype=np.uint8).repeat(DTYPES[data_type].itemsize).view(DTYPES[data_type])
    header = build_safetensors(data_type, [6], "x")
    (tmp_path / "in.safetensors").write_bytes(header + array.tobytes())

    options = ("--shape", "2,3", "--no-special-zero", "--json")
    outcome = ask(server, "reshape", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", *options)

    assert json.loads(outcome.output)["data_type"] == name
    with open_source(str(tmp_path / "out.safetensors")) as source:
        assert (source.array.dtype, source.array.tobytes()) == (DTYPES[data_type], array.tobytes())


def test_a_file_that_changed_while_it_was_read_writes_nothing(file: Path, output: Path):
    files = ArrayFiles(source=str(file), output=str(output), data_type=None, as_json=False, progress=False)

    def static_reshape(array: Array, _shape: object, **_options: object) -> Array:
        os.utime(file, (1, 1))
        return array

    with pytest.raises(click.ClickException, match="changed while it was read"):
        files.reshape(static_reshape, [6], special_zero=False, expected_shape=None)
    assert not output.exists()


def test_a_device_is_written_to_and_not_replaced(file: Path, server: ServerProcess):
    assert ask(server, "static", file, "-o", os.devnull, "--shape", "6", "--no-special-zero").code == 0
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_an_array_is_not_for_a_terminal(file: Path):
    code, text = run_on_terminal(PROGRAM, "static", file, "--shape", "6", "--no-special-zero")
    assert (code, "not for a terminal" in text) == (2, True)
