"""Buffers of lines, reshaped in this process: `test_batches` has the same with a server."""

import pytest

from tensor_reshape.cli.executions import execute
from tensor_reshape.client import InvalidRequestError, Reason, ShapeQuery


def test_output_is_dense_for_any_strides():
    query = ShapeQuery(data_shape=[2, 2], shape=[-1], special_zero=False, data_type="f16", data_strides=[1, 2])
    assert execute(query, bytes(range(8)), None) == bytes([0, 1, 4, 5, 2, 3, 6, 7])


def test_execution_needs_numbers_and_a_type():
    for query in (
        ShapeQuery(data_shape=[None], shape=[-1], special_zero=False, data_type="u8", operation="reshape"),
        ShapeQuery(data_shape=[1], shape=[-1], special_zero=False),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            execute(query, b"\0", None)
        assert caught.value.reason is Reason.FIELD_MISSING
