"""The notation of shapes, data types and servers on the command line."""

import re

import click
import pytest

from command_line import run_command
from tensor_reshape.cli.parameter_types import (
    DATA_TYPE,
    OPERATION_NAME,
    Dims,
    InputShapes,
    PartialDims,
)
from tensor_reshape.client import DataType


def test_shape_option_is_parsed_from_comma_separated_numbers():
    shapes = {"2,3,-1": (2, 3, -1), "": (), "2x3x4": (2, 3, 4)}
    assert {text: Dims(unknown=False).convert(text, None, None) for text in shapes} == shapes
    assert Dims(unknown=True).convert("2,?", None, None) == (2, None)
    for text in ("a,b", "1.5", "1,,2", "?", "2,3,", "..."):
        with pytest.raises(click.BadParameter, match="is not a shape"):
            Dims(unknown=False).convert(text, None, None)


def test_shape_with_an_x_between_other_dims_shows_the_commas():
    for text, shown in (("2xNx4", "2,N,4"), ("2x?", "2,?"), ("[2x3..4]", "[2,3..4]")):
        with pytest.raises(click.BadParameter, match=re.escape(f"'{text}' is not a shape: write {shown}")):
            PartialDims().convert(text, None, None)
    with pytest.raises(click.BadParameter, match=re.escape("'2x?' is not a shape: write 2,?")):
        Dims(unknown=True).convert("2x?", None, None)


def test_profile_has_one_shape_with_commas_or_several_with_an_x():
    shapes = {
        "x=2x3x4": ((2, 3, 4),),
        "x=2,3,4": ((2, 3, 4),),
        "x=[2, 3]": ((2, 3),),
        "x=1x3,4x3": ((1, 3), (4, 3)),
        "a=b=7": ((7,),),
        "x=": ((),),
    }
    found = {text: InputShapes().convert(text, None, None) for text in shapes}
    assert found == {text: (text.rpartition("=")[0], listed) for text, listed in shapes.items()}
    for text in ("x=2,N", "x=1x3,?", "x=-1", f"x={2**63}", "x=..."):
        with pytest.raises(click.BadParameter, match="is not a shape: write sizes, for example x=1x3x512x512"):
            InputShapes().convert(text, None, None)


def test_timeout_option_must_be_a_number_above_0():
    for text in ("nan", "0", "-1", "soon"):
        outcome = run_command("health", "--timeout", text)
        assert (outcome.code, "'--timeout': " in outcome.errors[-1]) == (2, True), text


def test_data_type_option_accepts_a_name_and_lists_the_types():
    assert DATA_TYPE.convert("bfloat16", None, None) is DataType.BF16
    with pytest.raises(click.BadParameter, match="f8e4m3, f8e5m2, f16, bf16"):
        DATA_TYPE.convert("float", None, None)


def test_operation_option_accepts_a_name_and_lists_the_operations():
    assert OPERATION_NAME.convert("Reshape-1", None, None) == "reshape"
    with pytest.raises(click.BadParameter, match="is not one of static_reshape, dynamic_reshape, reshape"):
        OPERATION_NAME.convert("transpose", None, None)


def test_server_address_errors_name_valid_forms():
    for text, message in (
        ("http://localhost:50051", "write localhost:50051"),
        ("https://localhost:50051/path", "write localhost:50051 and add --tls"),
        ("grpc://localhost:50051", "write localhost:50051"),
        ("localhost", "add a port, as in 'localhost:50051'"),
    ):
        outcome = run_command("health", "--server", text)
        assert (outcome.code, outcome.errors[-1].endswith(message)) == (2, True), text
