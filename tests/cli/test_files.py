"""Files and pipes that the commands read and write."""

import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from grpc import StatusCode

from command_line import NOBODY, PROGRAM, SIX, Outcome, ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.files import ArrayFiles
from tensor_reshape.client import CallTimeoutError, Progress
from tensor_reshape.wire.arrays import Array
from terminals import run_on_terminal

PLAIN = ("--shape", "6", "--no-special-zero")


def save(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def save_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def load(outcome: Outcome) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.load(io.BytesIO(outcome.output))
    return array


def test_pipe_is_written_as_a_dash_and_read_in_logical_order(server: ServerProcess):
    for array in (SIX, np.asfortranarray(SIX)):
        outcome = ask(server, "static", "-", *PLAIN, stdin=save(array))
        np.testing.assert_array_equal(load(outcome), SIX.reshape(6), strict=True)


def test_json_describes_the_file_that_was_written(file: Path, output: Path, server: ServerProcess):
    outcome = ask(server, "static", file, *PLAIN, "-o", output, "--json")
    assert json.loads(outcome.output) == {"shape": [6], "data_type": "f32", "output": str(output)}
    assert ask(server, "static", file, *PLAIN, "--json").code == 2  # both would use standard output


@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("i4", ml_dtypes.int4)])
def test_type_that_npy_cannot_name_is_an_option(tmp_path: Path, server: ServerProcess, name: str, dtype: type):
    array: np.ndarray[Any, Any] = np.arange(-3, 3).astype(dtype)
    np.save(tmp_path / "data.npy", array)
    options = ("--data-type", name, "--shape", "3,2", "--no-special-zero")
    outcome = ask(server, "reshape", tmp_path / "data.npy", *options)
    assert load(outcome).view(dtype).tolist() == array.reshape(3, 2).tolist()


def test_data_type_never_overrides_that_of_the_file(server: ServerProcess, tmp_path: Path):
    for dtype, name in ((">f4", "f64"), ("<i4", "f32"), ("<f4", "bf16")):
        np.save(tmp_path / "data.npy", np.arange(6, dtype=dtype))
        outcome = ask(server, "reshape", tmp_path / "data.npy", "--data-type", name, *PLAIN)
        assert (outcome.code, len(outcome.errors)) == (1, 1), name
    np.save(tmp_path / "data.npy", np.arange(6, dtype=">f4"))  # a big-endian file keeps its values
    outcome = ask(server, "static", tmp_path / "data.npy", "--data-type", "f32", *PLAIN)
    assert load(outcome).tolist() == [0, 1, 2, 3, 4, 5]


def test_input_without_an_array_is_one_line():
    pickled = np.array([{}], dtype=object)
    for raw in (b"", b"PK\x03\x04 not a zip", save(pickled), *map(save_header, ((2**50,), (2**70,), (-1,)))):
        outcome = run_command("static", "-", *PLAIN, *NOBODY, stdin=raw)
        assert (outcome.code, outcome.output, len(outcome.errors)) == (1, b"", 1), raw


NF4 = ("--data-type", "nf4", "--dims", "2,3", "--shape", "3,2", "--no-special-zero")


def test_file_that_cannot_be_opened_is_one_line(file: Path, tmp_path: Path, server: ServerProcess):
    outcomes = [
        run_command("static", "missing.npy", *PLAIN, *NOBODY),
        run_command("reshape", "missing", *NF4, *NOBODY),
        ask(server, "static", file, *PLAIN, "-o", tmp_path / "no" / "where.npy"),
    ]
    assert [(outcome.code, len(outcome.errors)) for outcome in outcomes] == [(1, 1)] * 3


def test_packed_bytes_are_read_and_written_as_they_are(tmp_path: Path, server: ServerProcess):
    outcome = ask(server, "reshape", "-", *NF4, "-o", tmp_path / "output", "--json", stdin=b"\x10\x32\xf4")
    assert json.loads(outcome.output) == {"shape": [3, 2], "data_type": "nf4", "output": str(tmp_path / "output")}
    assert (tmp_path / "output").read_bytes() == b"\x10\x32\xf4"
    outcome = ask(server, "reshape", "-", *NF4, stdin=b"\x10\x32")
    assert (outcome.code, outcome.output, len(outcome.errors)) == (3, b"", 1)
    assert "[DATA_SIZE_MISMATCH]" in outcome.errors[0]


def test_dims_and_packed_types_go_together(file: Path):
    for options in (("--dims", "2,3"), ("--data-type", "f32", "--dims", "2,3")):
        outcome = run_command("reshape", file, *options, *PLAIN, *NOBODY)
        assert (outcome.code, "below one byte" in outcome.errors[-1]) == (2, True), options
    outcome = run_command("reshape", file, "--data-type", "nf4", *PLAIN, *NOBODY)
    assert (outcome.code, ".npy has no type nf4: pass packed bytes" in outcome.errors[-1]) == (2, True)


def test_input_file_is_not_written(file: Path, tmp_path: Path):
    (tmp_path / "link.npy").hardlink_to(file)
    before = file.read_bytes()
    outcome = run_command("static", file, "-o", tmp_path / "link.npy", *PLAIN, *NOBODY)
    assert (outcome.code, "is the input file" in outcome.errors[-1]) == (2, True)
    assert file.read_bytes() == before


def test_failed_call_leaves_the_old_output_and_nothing_else(file: Path, output: Path, server: ServerProcess):
    assert run_command("static", file, "-o", output, *PLAIN, *NOBODY).code == 5
    assert [path.name for path in output.parent.iterdir()] == ["data.npy"]
    output.write_text("old")
    assert ask(server, "static", file, "-o", output, "--shape", "5", "--no-special-zero").code == 3
    assert output.read_text() == "old"
    assert sorted(path.name for path in output.parent.iterdir()) == ["data.npy", "output.npy"]


@pytest.mark.parametrize("size", [6, 2**20], ids=["inline", "stream"])
def test_every_format_goes_into_every_other(server: ServerProcess, tmp_path: Path, size: int):
    array: Array = np.arange(size, dtype=np.float32)
    np.save(tmp_path / "in.npy", array)
    np.savez(tmp_path / "one.npz", b=array)
    np.savez(tmp_path / "in.npz", a=array[:1], b=array)
    safetensors.numpy.save_file({"a": array[:1], "b": array}, tmp_path / "in.safetensors", {"format": "np"})
    for source in ("in.npy", "one.npz", "in.npz:b", "in.safetensors:b"):
        for target in ("out.npy", "out.npz:x", "out.safetensors:x"):
            options = ("-o", tmp_path / target, "--shape=2,-1", "--no-special-zero", "--json")
            outcome = ask(server, "static", tmp_path / source, *options)
            assert (outcome.code, json.loads(outcome.output)["shape"]) == (0, [2, size // 2]), (source, target)
            path = tmp_path / target.partition(":")[0]
            loaded = safetensors.numpy.load_file(path) if path.suffix == ".safetensors" else np.load(path)
            written = loaded if path.suffix == ".npy" else loaded["x"]
            np.testing.assert_array_equal(written, array.reshape(2, -1), strict=True, err_msg=f"{source} {target}")
            path.unlink()


def _open(file: Path, output: Path, *, has_timeout: bool = False) -> ArrayFiles:
    options: dict[str, Any] = {"data_type": None, "as_json": False, "progress": False}
    return ArrayFiles(source=str(file), output=str(output), has_timeout=has_timeout, **options)


def test_timeout_grows_with_the_file_unless_it_is_given(file: Path, output: Path):
    seen = []

    def static_reshape(array: Array, _shape: object, timeout: float | None, **_options: object) -> Array:
        seen.append(timeout)
        return array

    for has_timeout in (False, True):
        files = _open(file, output, has_timeout=has_timeout)
        files.reshape(static_reshape, [6], special_zero=False, expected_shape=None)
    assert seen == [30 + SIX.nbytes / (4 * 1024 * 1024), None]


def test_timeout_of_a_transfer_says_how_much_had_arrived(file: Path, output: Path):
    def static_reshape(_array: Array, _shape: object, progress: Progress, **_options: object) -> Array:
        progress(2**20, 2**22)
        message = "Stream removed"
        raise CallTimeoutError(message, StatusCode.DEADLINE_EXCEEDED)

    with pytest.raises(
        CallTimeoutError, match="1 MiB of 4 MiB had arrived when the time was up: set a longer --timeout"
    ):
        _open(file, output).reshape(static_reshape, [6], special_zero=False, expected_shape=None)


def test_name_of_the_output_says_its_format(file: Path, tmp_path: Path):
    for name in ("out.txt", "out", "npy"):
        outcome = run_command("static", file, *PLAIN, *NOBODY, "-o", tmp_path / name)
        assert (outcome.code, "must end in .npy, .npz or .safetensors" in outcome.errors[-1]) == (2, True), name
    outcome = run_command("reshape", file, *NF4, *NOBODY, "-o", tmp_path / "out.npy")
    assert (outcome.code, "another extension" in outcome.errors[-1]) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["data.npy"]


def test_file_that_changed_while_it_was_read_writes_nothing(file: Path, output: Path):
    files = _open(file, output)

    def static_reshape(array: Array, _shape: object, **_options: object) -> Array:
        os.utime(file, (1, 1))
        return array

    with pytest.raises(click.ClickException, match="changed while it was read"):
        files.reshape(static_reshape, [6], special_zero=False, expected_shape=None)
    assert not output.exists()


def test_device_is_written_to_and_not_replaced(file: Path, server: ServerProcess):
    assert ask(server, "static", file, "-o", os.devnull, *PLAIN).code == 0
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_array_is_not_written_to_a_terminal(file: Path):
    code, text = run_on_terminal(PROGRAM, "static", file, *PLAIN)
    assert (code, "cannot be printed on a terminal" in text) == (2, True)
