"""`tensor-reshape` on files and pipes, in processes of its own."""

import io
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from command_line import Outcome, run_command
from server_processes import ServerProcess, run_server

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)
NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.npy"
    np.save(path, SIX)
    return path


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output.npy"


def run(server: ServerProcess, command: str, *arguments: str | Path, stdin: bytes = b"") -> Outcome:
    return run_command(command, "--server", server.address, *arguments, stdin=stdin)


def infer(server: ServerProcess, *arguments: str) -> Outcome:
    return run(server, "infer", "--data", "2,3,4", "--special-zero", *arguments)


def save(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def save_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def test_health_prints_serving_and_succeeds(server: ServerProcess):
    outcome = run(server, "health")
    assert (outcome.code, outcome.text, outcome.errors) == (0, "SERVING", [])


def test_health_of_the_whole_server_in_json(server: ServerProcess):
    outcome = run(server, "health", "--service", "", "--json")
    assert (outcome.code, json.loads(outcome.output)) == (0, {"status": "SERVING"})


def test_health_fails_where_nobody_listens():
    outcome = run_command("health", *NOBODY)
    assert (outcome.code, outcome.text, len(outcome.errors)) == (5, "", 1)


def test_the_environment_names_the_server(server: ServerProcess):
    outcome = run_command("health", env={"TENSOR_RESHAPE_SERVER": server.address})
    assert (outcome.code, outcome.text) == (0, "SERVING")


def test_infer_prints_the_shape(server: ServerProcess):
    assert (infer(server, "--shape", "0,-1").text) == "2,12"


def test_infer_prints_the_shape_in_json(server: ServerProcess):
    assert json.loads(infer(server, "--shape", "0,-1", "--json").output) == {"shape": [2, 12]}


def test_infer_answers_for_the_operation_that_is_named(server: ServerProcess):
    outcome = run(server, "infer", "--data", "4,0,2", "--shape", "-1,0", "--special-zero", "--operation", "reshape")
    assert outcome.text == "8,0"


def test_infer_writes_a_scalar_as_nothing(server: ServerProcess):
    outcome = run(server, "infer", "--data", "", "--shape", "", "--no-special-zero", "--json")
    assert json.loads(outcome.output) == {"shape": []}


def test_an_expected_shape_may_leave_dims_open(server: ServerProcess):
    assert infer(server, "--shape", "0,-1", "--expect", "2,?").code == 0


def test_an_expected_shape_that_does_not_hold_is_a_refusal(server: ServerProcess):
    assert infer(server, "--shape", "0,-1", "--expect", "3,?").code == 3


def test_an_open_dim_is_no_target_of_an_execution(file: Path, server: ServerProcess):
    assert run(server, "static", file, "--shape", "?,-1", "--no-special-zero").code == 2


def test_special_zero_must_be_given(file: Path, server: ServerProcess):
    outcome = run(server, "static", file, "--shape", "6")
    assert (outcome.code, "special-zero" in outcome.errors[-1]) == (2, True)


def test_a_refusal_is_one_line_with_its_reason(server: ServerProcess):
    outcome = infer(server, "--shape", "5,-1")
    assert (outcome.code, outcome.text, len(outcome.errors)) == (3, "", 1)
    assert outcome.errors[0].endswith("[NOT_DIVISIBLE]")


def test_a_refusal_in_json_has_its_reason_field_and_metadata(server: ServerProcess):
    outcome = infer(server, "--shape", "5,-1", "--json")
    report = json.loads(outcome.errors[0])
    assert (outcome.code, report["reason"], report["field"]) == (3, "NOT_DIVISIBLE", "shape[1]")
    assert report["metadata"]["index"] == "1"


def test_a_limit_has_an_exit_code_of_its_own(tmp_path: Path):
    path = tmp_path / "large.npy"
    np.save(path, np.zeros(2000, np.float32))
    with run_server("--max-message-bytes", "4096") as small:
        outcome = run(small, "static", path, "--shape", "-1", "--no-special-zero")
    assert (outcome.code, len(outcome.errors)) == (4, 1)


@pytest.mark.parametrize("command", ["static", "dynamic", "reshape"])
def test_a_file_is_reshaped_into_a_file(command: str, file: Path, output: Path, server: ServerProcess):
    outcome = run(server, command, file, "--shape", "3,-1", "--no-special-zero", "-o", output)
    assert (outcome.code, outcome.output) == (0, b"")
    np.testing.assert_array_equal(np.load(output), SIX.reshape(3, 2), strict=True)


def test_pipes_are_written_as_a_dash(server: ServerProcess):
    outcome = run(server, "static", "-", "--shape", "6", "--no-special-zero", stdin=save(SIX))
    np.testing.assert_array_equal(np.load(io.BytesIO(outcome.output)), SIX.reshape(6), strict=True)


def test_a_fortran_ordered_file_is_read_in_its_logical_order(server: ServerProcess):
    outcome = run(server, "static", "-", "--shape", "6", "--no-special-zero", stdin=save(np.asfortranarray(SIX)))
    np.testing.assert_array_equal(np.load(io.BytesIO(outcome.output)), SIX.reshape(6), strict=True)


def test_json_describes_the_file_that_was_written(file: Path, output: Path, server: ServerProcess):
    outcome = run(server, "static", file, "--shape", "6", "--no-special-zero", "-o", output, "--json")
    assert json.loads(outcome.output) == {"shape": [6], "data_type": "f32", "output": str(output)}


def test_json_and_an_array_do_not_share_standard_output(file: Path, server: ServerProcess):
    assert run(server, "static", file, "--shape", "6", "--no-special-zero", "--json").code == 2


@pytest.mark.parametrize(("command", "dtype"), [("dynamic", "i4"), ("reshape", "u1")])
def test_a_target_is_read_from_a_file(command: str, dtype: str, file: Path, tmp_path: Path, server: ServerProcess):
    np.save(tmp_path / "shape.npy", np.array([3, 2], dtype))
    outcome = run(server, command, file, "--shape", f"@{tmp_path}/shape.npy", "--no-special-zero")
    assert np.load(io.BytesIO(outcome.output)).shape == (3, 2)


def test_a_target_file_of_another_type_is_refused(file: Path, tmp_path: Path, server: ServerProcess):
    np.save(tmp_path / "shape.npy", np.array([3, 2], "i8"))
    outcome = run(server, "dynamic", file, "--shape", f"@{tmp_path}/shape.npy", "--no-special-zero")
    assert (outcome.code, outcome.errors[0].endswith("[SHAPE_DATA_TYPE_UNSUPPORTED]")) == (3, True)


def test_bfloat16_is_named_because_npy_cannot(tmp_path: Path, server: ServerProcess):
    array = np.arange(6).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "data.npy", array)
    outcome = run(server, "static", tmp_path / "data.npy", "--data-type", "bf16", "--shape", "3,2", "--no-special-zero")
    assert np.load(io.BytesIO(outcome.output)).view(ml_dtypes.bfloat16).tolist() == array.reshape(3, 2).tolist()


def test_a_data_type_of_another_size_than_the_items_is_refused(file: Path, server: ServerProcess):
    outcome = run(server, "static", file, "--data-type", "bf16", "--shape", "6", "--no-special-zero")
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
    outcome = run(server, "static", file, "--shape", "6", "--no-special-zero", "-o", tmp_path / "no" / "where.npy")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


@pytest.mark.parametrize("shape", ["a,b", "1.5", "1,,2", "@missing.npy"])
def test_a_shape_that_cannot_be_read_is_no_traceback(shape: str, file: Path):
    outcome = run_command("reshape", file, "--shape", shape, "--no-special-zero", *NOBODY)
    assert (outcome.code in {1, 2}, outcome.errors[-1].startswith("Error: ")) == (True, True)


@pytest.mark.parametrize("shape", [str(2**63), str(-(2**70)), "1" + "0" * 5000])
def test_a_dim_beyond_every_integer_type_is_no_traceback(shape: str, file: Path):
    outcome = run_command("static", file, "--shape", shape, "--no-special-zero", *NOBODY)
    assert (outcome.code in {2, 3}, outcome.errors[-1].startswith("Error: ")) == (True, True)


@pytest.mark.parametrize(("dtype", "name"), [(">f4", "f64"), ("<i4", "f32")])
def test_a_data_type_never_overrides_that_of_the_file(server: ServerProcess, tmp_path: Path, dtype: str, name: str):
    np.save(tmp_path / "data.npy", np.arange(6, dtype=dtype))
    outcome = run(server, "reshape", tmp_path / "data.npy", "--data-type", name, "--shape", "6", "--special-zero")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_big_endian_file_keeps_its_values_with_its_data_type_named(server: ServerProcess, tmp_path: Path):
    np.save(tmp_path / "data.npy", np.arange(6, dtype=">f4"))
    outcome = run(server, "static", tmp_path / "data.npy", "--data-type", "f32", "--shape", "6", "--special-zero")
    assert np.load(io.BytesIO(outcome.output)).tolist() == [0, 1, 2, 3, 4, 5]


def test_an_error_of_usage_is_json_where_that_is_asked_for(server: ServerProcess):
    outcome = run(server, "infer", "--data", "2", "--shape", "2", "--json")
    assert outcome.code == 2
    assert "special-zero" in json.loads("".join(outcome.errors))["error"]
