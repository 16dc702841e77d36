"""How shapes, data types and servers are written on the command line."""

from pathlib import Path

import click
import numpy as np
import pytest

from command_line import NOBODY, ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.parameters import (
    SHAPE,
    DataTypeName,
    Dims,
    OperationName,
    PartialDims,
    PartialShape,
    Strides,
    Target,
)
from tensor_reshape.client import DataType, Dim, Interval
from tensor_reshape.wire.arrays import Array

HUGE = (str(2**63), str(-(2**70)), "1" + "0" * 5000)


def test_environment_names_the_server(server: ServerProcess):
    outcome = run_command("health", env={"TENSOR_RESHAPE_SERVER": server.address})
    assert (outcome.code, outcome.text) == (0, "SERVING")


def test_health_uses_the_variables_of_the_server(server: ServerProcess):
    port = server.address.rpartition(":")[2]
    for variables in (
        {"TENSOR_RESHAPE_LISTEN": f"0.0.0.0:{port} unix:/none"},
        {"TENSOR_RESHAPE_HEALTH_LISTEN": f"[::]:{port}", "TENSOR_RESHAPE_LISTEN": "0.0.0.0:1"},
        {"TENSOR_RESHAPE_SERVER": server.address, "TENSOR_RESHAPE_HEALTH_LISTEN": "0.0.0.0:1"},
    ):
        outcome = run_command("health", "--timeout", "5", env=variables)
        assert (outcome.code, outcome.text) == (0, "SERVING"), variables


def test_unreadable_target_is_an_error_without_a_traceback(file: Path):
    for command, shape in (("reshape", "a,b"), ("reshape", "@missing.npy"), *(("static", one) for one in HUGE)):
        outcome = run_command(command, file, "--shape", shape, "--no-special-zero", *NOBODY)
        assert (outcome.code in {1, 2, 3}, outcome.errors[-1].startswith("Error: ")) == (True, True), shape
    outcome = run_command("static", file, "--shape", "6", *NOBODY)
    assert (outcome.code, "special-zero" in outcome.errors[-1]) == (2, True)


def test_shape_is_numbers_between_commas():
    shapes = {"2,3,-1": (2, 3, -1), " 2 , 3 ": (2, 3), "": (), "0": (0,), "(0,-1)": (0, -1), "[0, -1]": (0, -1)}
    assert {text: SHAPE.convert(text, None, None) for text in shapes} == shapes
    assert Dims(unknown=True).convert("2,?", None, None) == (2, None)
    for text in ("a,b", "1.5", "1,,2", "?", "2,3,", "..."):
        with pytest.raises(click.BadParameter, match="is not a shape"):
            SHAPE.convert(text, None, None)


def test_partial_shape_is_in_the_notation_of_the_rules():
    for text in ("...", "unknown"):
        assert PartialDims().convert(text, None, None) == PartialShape(None)
    assert PartialDims().convert("2,?,2..8", None, None).dims == (2, None, Dim(Interval(2, 8)))
    assert PartialDims().convert("", None, None).dims == ()
    with pytest.raises(click.BadParameter):
        PartialDims().convert("1.5", None, None)


def test_strides_are_numbers_up_to_the_largest_dim():
    for text, strides in (("12,4,1", (12, 4, 1)), (str(2**63 - 1), (2**63 - 1,))):
        assert Strides().convert(text, None, None) == strides
    with pytest.raises(click.BadParameter, match="at most 2"):
        Strides().convert(str(2**63), None, None)


def test_target_is_numbers_or_an_array_of_a_file(tmp_path: Path):
    np.save(tmp_path / "shape.npy", np.array([3, 2], np.uint8))
    assert Target().convert("3,2", None, None) == [3, 2]
    array = Target().convert(f"@{tmp_path}/shape.npy", None, None)
    assert isinstance(array, np.ndarray)
    expected: Array = np.array([3, 2], np.uint8)
    np.testing.assert_array_equal(array, expected, strict=True)


def test_data_type_has_the_name_of_the_specifications_or_of_numpy():
    assert [DataTypeName().convert(str(one), None, None) for one in DataType] == [*DataType]
    assert DataTypeName().convert("bfloat16", None, None) is DataType.BF16
    with pytest.raises(click.BadParameter, match="f8e4m3, f8e5m2, f16, bf16"):
        DataTypeName().convert("float", None, None)


def test_operation_has_any_usual_spelling():
    for text in ("reshape", "Reshape", "Reshape-1"):
        assert OperationName().convert(text, None, None) == "reshape", text
    with pytest.raises(click.BadParameter, match="is not one of static_reshape, dynamic_reshape, reshape"):
        OperationName().convert("transpose", None, None)


def test_server_address_errors_say_what_to_write():
    for text, message in (
        ("http://localhost:50051", "write localhost:50051"),
        ("https://localhost:50051/", "write localhost:50051 and add --tls"),
        ("localhost", "it has no port: write 'localhost:50051'"),
    ):
        outcome = run_command("health", "--server", text)
        assert (outcome.code, outcome.errors[-1].endswith(message)) == (2, True), text


def test_unknown_service_is_answered_with_the_known_ones(server: ServerProcess):
    outcome = ask(server, "health", "--service", "nosuch")
    assert (outcome.code, "tensor_reshape.v1.ReshapeService, or '' for" in outcome.errors[-1]) == (1, True)
