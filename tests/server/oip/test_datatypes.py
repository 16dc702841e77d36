"""The names of types, and what is said of those without one."""

import numpy as np
import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.oip.datatypes import DATATYPES, NAMES, decode_datatype, format_names


def test_a_name_tells_kind_and_bits():
    for name, data_type in DATATYPES.items():
        digits = "".join(filter(str.isdigit, name.replace("BF16", "16")))
        assert data_type.bits == int(digits or 8)


def test_a_name_is_that_of_numpy_in_capitals():
    named = {name: np.dtype(data_type.numpy_name) for name, data_type in DATATYPES.items() if name[0] in "UI"}
    assert {name: dtype.name.upper() for name, dtype in named.items()} == {name: name for name in named}


@pytest.mark.parametrize("name", ["", "FP8", "fp32", "INT4", "X" * 10000])
def test_a_type_without_a_name_is_said_to_be_taken_elsewhere(name: str):
    with pytest.raises(InvalidRequestError, match=r"f8e4m3, .*ReshapeService/Reshape takes them") as caught:
        decode_datatype(name, "inputs[0].datatype")
    assert caught.value.reason is Reason.DATA_TYPE_UNSUPPORTED
    assert DataType.F8E4M3 not in NAMES


def test_bytes_are_refused_with_a_reason_of_their_own():
    with pytest.raises(InvalidRequestError, match="no fixed size"):
        decode_datatype("BYTES", "inputs[0].datatype")


def test_names_are_listed_in_the_order_of_the_protocol():
    assert format_names(frozenset({DataType.F32, DataType.BF16, DataType.F16, DataType.F8E4M3})) == "FP16, BF16, FP32"
