"""The names of types, and the rejections of types without a name."""

import numpy as np
import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.oip.datatypes import DATATYPES, NAMES, decode_datatype, format_names


def test_inference_protocol_datatype_names_match_kind_and_bits():
    for name, data_type in DATATYPES.items():
        assert data_type.bits == int("".join(filter(str.isdigit, name.replace("BF16", "16"))) or 8)
        assert name[0] not in "UI" or np.dtype(data_type.numpy_name).name.upper() == name


def test_unsupported_inference_datatype_error_names_an_alternative_method():
    for name in ("", "FP8", "fp32", "INT4", "X" * 10000):
        with pytest.raises(InvalidRequestError, match=r"f8e4m3, .*, call .*ReshapeService/Reshape$") as caught:
            decode_datatype(name, "inputs[0].datatype")
        assert caught.value.reason is Reason.DATA_TYPE_UNSUPPORTED, name
    assert DataType.F8E4M3 not in NAMES


def test_datatype_bytes_is_rejected_because_its_size_varies():
    with pytest.raises(InvalidRequestError, match="no fixed size"):
        decode_datatype("BYTES", "inputs[0].datatype")


def test_datatypes_are_listed_in_inference_protocol_order():
    assert format_names(frozenset({DataType.F32, DataType.BF16, DataType.F16, DataType.F8E4M3})) == "FP16, BF16, FP32"
