"""How shapes, data types and servers are written on the command line."""

from pathlib import Path

import click
import numpy as np
import pytest

from command_line import ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.parameters import SHAPE, DataTypeName, Dims, PartialDims, PartialShape, Strides, Target
from tensor_reshape.client import DataType, Dim, Interval
from tensor_reshape.wire.arrays import Array

NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]


def test_the_environment_names_the_server(server: ServerProcess):
    outcome = run_command("health", env={"TENSOR_RESHAPE_SERVER": server.address})
    assert (outcome.code, outcome.text) == (0, "SERVING")


def test_an_open_dim_is_no_target_of_an_execution(file: Path, server: ServerProcess):
    assert ask(server, "static", file, "--shape", "?,-1", "--no-special-zero").code == 2


def test_special_zero_must_be_given(file: Path, server: ServerProcess):
    outcome = ask(server, "static", file, "--shape", "6")
    assert (outcome.code, "special-zero" in outcome.errors[-1]) == (2, True)


@pytest.mark.parametrize("shape", ["a,b", "1.5", "1,,2", "@missing.npy"])
def test_a_shape_that_cannot_be_read_is_no_traceback(shape: str, file: Path):
    outcome = run_command("reshape", file, "--shape", shape, "--no-special-zero", *NOBODY)
    assert (outcome.code in {1, 2}, outcome.errors[-1].startswith("Error: ")) == (True, True)


@pytest.mark.parametrize("shape", [str(2**63), str(-(2**70)), "1" + "0" * 5000])
def test_a_dim_beyond_every_integer_type_is_no_traceback(shape: str, file: Path):
    outcome = run_command("static", file, "--shape", shape, "--no-special-zero", *NOBODY)
    assert (outcome.code in {2, 3}, outcome.errors[-1].startswith("Error: ")) == (True, True)


@pytest.mark.parametrize(("text", "dims"), [("2,3,-1", (2, 3, -1)), (" 2 , 3 ", (2, 3)), ("", ()), ("0", (0,))])
def test_a_shape_is_numbers_between_commas(text: str, dims: tuple[int, ...]):
    assert SHAPE.convert(text, None, None) == dims


def test_an_unknown_dim_is_a_question_mark_where_one_may_be_unknown():
    assert Dims(unknown=True).convert("2,?", None, None) == (2, None)


@pytest.mark.parametrize("text", ["a,b", "1.5", "1,,2", "?", "2,3,"])
def test_what_is_no_shape_is_an_error_of_usage(text: str):
    with pytest.raises(click.BadParameter, match="is not a shape"):
        SHAPE.convert(text, None, None)


@pytest.mark.parametrize("text", ["...", "unknown"])
def test_a_shape_of_which_nothing_is_known_has_a_text_of_its_own(text: str):
    assert PartialDims().convert(text, None, None) == PartialShape(None)


def test_a_shape_that_is_known_in_part_is_written_in_the_notation_of_the_rules():
    assert PartialDims().convert("2,?,2..8", None, None).dims == (2, None, Dim(Interval(2, 8)))


def test_a_scalar_is_not_a_shape_of_which_nothing_is_known():
    assert PartialDims().convert("", None, None).dims == ()


def test_a_dim_that_cannot_be_read_is_an_error_of_usage():
    with pytest.raises(click.BadParameter):
        PartialDims().convert("1.5", None, None)


@pytest.mark.parametrize(("text", "strides"), [("12,4,1", (12, 4, 1)), (str(2**63 - 1), (2**63 - 1,))])
def test_strides_are_numbers_up_to_the_largest_dim(text: str, strides: tuple[int, ...]):
    assert Strides().convert(text, None, None) == strides


def test_a_stride_above_the_largest_dim_is_an_error_of_usage():
    with pytest.raises(click.BadParameter, match="at most"):
        Strides().convert(str(2**63), None, None)


def test_a_target_is_numbers_or_an_array_of_a_file(tmp_path: Path):
    np.save(tmp_path / "shape.npy", np.array([3, 2], np.uint8))
    assert Target().convert("3,2", None, None) == [3, 2]
    array = Target().convert(f"@{tmp_path}/shape.npy", None, None)
    assert isinstance(array, np.ndarray)
    expected: Array = np.array([3, 2], np.uint8)
    np.testing.assert_array_equal(array, expected, strict=True)


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_data_type_is_named_as_the_specifications_name_it(data_type: DataType):
    assert DataTypeName().convert(str(data_type), None, None) is data_type


def test_a_name_of_no_data_type_is_an_error_of_usage_that_lists_them():
    with pytest.raises(click.BadParameter, match="f8e4m3, f8e5m2, f16, bf16"):
        DataTypeName().convert("float32", None, None)
