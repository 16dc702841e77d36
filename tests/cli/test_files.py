"""Files and pipes that the commands read and write."""

import io
import json
import os
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from grpc import StatusCode

from command_line import NOBODY, PROGRAM, SIX, Outcome, ask, run_command, run_on_terminal
from server_processes import ServerProcess
from tensor_reshape.cli.files import ArrayFiles
from tensor_reshape.client import CallTimeoutError, Progress
from tensor_reshape.wire.arrays import Array

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


def test_dash_reads_an_array_from_standard_input_in_logical_order(server: ServerProcess):
    for array in (SIX, np.asfortranarray(SIX)):
        outcome = ask(server, "static", "-", *PLAIN, stdin=save(array))
        np.testing.assert_array_equal(load(outcome), SIX.reshape(6), strict=True)


def test_json_output_describes_the_written_array_file(file: Path, output: Path, server: ServerProcess):
    outcome = ask(server, "static", file, *PLAIN, "-o", output, "--json")
    assert json.loads(outcome.output) == {"shape": [6], "data_type": "f32", "output": str(output)}
    assert ask(server, "static", file, *PLAIN, "--json").code == 2  # both would use standard output


@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("i4", ml_dtypes.int4)])
def test_data_type_option_supplies_types_that_npy_cannot_name(
    tmp_path: Path, server: ServerProcess, name: str, dtype: type
):
    array: np.ndarray[Any, Any] = np.arange(-3, 3).astype(dtype)
    np.save(tmp_path / "data.npy", array)
    options = ("--data-type", name, "--shape", "3,2", "--no-special-zero")
    outcome = ask(server, "reshape", tmp_path / "data.npy", *options)
    assert load(outcome).view(dtype).tolist() == array.reshape(3, 2).tolist()


def test_data_type_option_never_overrides_the_type_in_a_file(server: ServerProcess, tmp_path: Path):
    for dtype, name in ((">f4", "f64"), ("<i4", "f32"), ("<f4", "bf16")):
        np.save(tmp_path / "data.npy", np.arange(6, dtype=dtype))
        outcome = ask(server, "reshape", tmp_path / "data.npy", "--data-type", name, *PLAIN)
        assert (outcome.code, len(outcome.errors)) == (1, 1), name
    np.save(tmp_path / "data.npy", np.arange(6, dtype=">f4"))  # a big-endian file keeps its values
    outcome = ask(server, "static", tmp_path / "data.npy", "--data-type", "f32", *PLAIN)
    assert load(outcome).tolist() == [0, 1, 2, 3, 4, 5]


def test_invalid_array_on_standard_input_prints_one_error_line():
    pickled = np.array([{}], dtype=object)
    for raw in (b"", b"PK\x03\x04 not a zip", save(pickled), *map(save_header, ((2**50,), (2**70,), (-1,)))):
        outcome = run_command("static", "-", *PLAIN, *NOBODY, stdin=raw)
        assert (outcome.code, outcome.output, len(outcome.errors)) == (1, b"", 1), raw


NF4 = ("--data-type", "nf4", "--dims", "2,3", "--shape", "3,2", "--no-special-zero")


def test_unreadable_input_file_prints_one_error_line(file: Path, tmp_path: Path, server: ServerProcess):
    outcomes = [
        run_command("static", "missing.npy", *PLAIN, *NOBODY),
        run_command("reshape", "missing", *NF4, *NOBODY),
        ask(server, "static", file, *PLAIN, "-o", tmp_path / "no" / "where.npy"),
    ]
    assert [(outcome.code, len(outcome.errors)) for outcome in outcomes] == [(1, 1)] * 3


def test_command_line_reads_and_writes_packed_bytes_unchanged(tmp_path: Path, server: ServerProcess):
    outcome = ask(server, "reshape", "-", *NF4, "-o", tmp_path / "output", "--json", stdin=b"\x10\x32\xf4")
    assert json.loads(outcome.output) == {"shape": [3, 2], "data_type": "nf4", "output": str(tmp_path / "output")}
    assert (tmp_path / "output").read_bytes() == b"\x10\x32\xf4"
    outcome = ask(server, "reshape", "-", *NF4, stdin=b"\x10\x32")
    assert (outcome.code, outcome.output, len(outcome.errors)) == (3, b"", 1)
    assert "[DATA_SIZE_MISMATCH]" in outcome.errors[0]


def test_dims_option_is_accepted_only_with_packed_data_types(file: Path):
    for options in (("--dims", "2,3"), ("--data-type", "f32", "--dims", "2,3")):
        outcome = run_command("reshape", file, *options, *PLAIN, *NOBODY)
        assert (outcome.code, "below one byte" in outcome.errors[-1]) == (2, True), options
    outcome = run_command("reshape", file, "--data-type", "nf4", *PLAIN, *NOBODY)
    assert (outcome.code, ".npy files have no type nf4: pass a file of packed bytes" in outcome.errors[-1]) == (2, True)


def test_output_option_rejects_the_input_file(file: Path, tmp_path: Path):
    (tmp_path / "link.npy").hardlink_to(file)
    before = file.read_bytes()
    outcome = run_command("static", file, "-o", tmp_path / "link.npy", *PLAIN, *NOBODY)
    assert (outcome.code, "is the input file" in outcome.errors[-1]) == (2, True)
    assert file.read_bytes() == before


def test_failed_call_keeps_the_existing_output_file(file: Path, output: Path, server: ServerProcess):
    assert run_command("static", file, "-o", output, *PLAIN, *NOBODY).code == 5
    assert [path.name for path in output.parent.iterdir()] == ["data.npy"]
    output.write_text("old")
    assert ask(server, "static", file, "-o", output, "--shape", "5", "--no-special-zero").code == 3
    assert output.read_text() == "old"
    assert sorted(path.name for path in output.parent.iterdir()) == ["data.npy", "output.npy"]


@pytest.mark.parametrize("size", [6, 2**20], ids=["inline", "stream"])
def test_each_array_file_format_can_be_converted_into_each_other(server: ServerProcess, tmp_path: Path, size: int):
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


def _open(file: Path, output: Path, timeout: float | None = None) -> ArrayFiles:
    options: dict[str, Any] = {"data_type": None, "as_json": False, "progress": False}
    return ArrayFiles(source=str(file), output=str(output), timeout=timeout, **options)


def test_default_timeout_grows_with_the_file_size(file: Path, output: Path):
    seen = []

    def static_reshape(array: Array, _shape: object, timeout: float | None, **_options: object) -> Array:
        seen.append(timeout)
        return array

    for timeout in (None, 7):
        files = _open(file, output, timeout)
        files.reshape(static_reshape, [6], special_zero=False, expected_shape=None)
    assert seen == [30 + SIX.nbytes / (4 * 1024 * 1024), 7]


def test_timeout_error_of_a_transfer_states_the_received_bytes(file: Path, output: Path):
    def static_reshape(_array: Array, _shape: object, progress: Progress, **_options: object) -> Array:
        progress(2**20, 2**22)
        message = "Stream removed"
        raise CallTimeoutError(message, StatusCode.DEADLINE_EXCEEDED)

    with pytest.raises(CallTimeoutError) as caught:
        _open(file, output, 7).reshape(static_reshape, [6], special_zero=False, expected_shape=None)
    assert caught.value.fault == "1 MiB of 4 MiB had arrived"


def test_output_file_with_an_unsupported_extension_is_rejected(file: Path, tmp_path: Path):
    for name in ("out.txt", "out", "npy"):
        outcome = run_command("static", file, *PLAIN, *NOBODY, "-o", tmp_path / name)
        assert (outcome.code, "must end in .npy, .npz or .safetensors" in outcome.errors[-1]) == (2, True), name
    outcome = run_command("reshape", file, *NF4, *NOBODY, "-o", tmp_path / "out.npy")
    assert (outcome.code, "another extension" in outcome.errors[-1]) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["data.npy"]


def test_input_file_changed_during_the_call_writes_no_output(file: Path, output: Path):
    files = _open(file, output)

    def static_reshape(array: Array, _shape: object, **_options: object) -> Array:
        os.utime(file, (1, 1))
        return array

    with pytest.raises(click.ClickException, match="changed while it was read"):
        files.reshape(static_reshape, [6], special_zero=False, expected_shape=None)
    assert not output.exists()


def test_command_line_refuses_to_write_an_array_to_a_terminal(file: Path):
    code, text = run_on_terminal(PROGRAM, "static", file, *PLAIN)
    assert (code, "cannot be printed on a terminal" in text) == (2, True)
