"""The numbers of data types. `test_reshapes` converts tensors."""

import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.tensors import decode_data_type, encode_data_type


def test_known_data_type_numbers_are_decoded_and_others_rejected():
    assert [decode_data_type(encode_data_type(one), "data.data_type") for one in DataType] == list(DataType)
    for number in (0, len(DataType) + 1, -1):
        with pytest.raises(InvalidRequestError) as caught:
            decode_data_type(number, "data.data_type")
        assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")
        assert caught.value.metadata == {"value": str(number)}
