"""Buffers that this process cannot reshape. `test_batches` has buffers that it can, and those of a server."""

import pytest

from tensor_reshape.cli.executions import execute
from tensor_reshape.client import InvalidRequestError, Reason, ShapeQuery


def test_executing_a_query_requires_known_dims_and_a_data_type():
    for query in (
        ShapeQuery(data_shape=[None], shape=[-1], special_zero=False, data_type="u8", operation="reshape"),
        ShapeQuery(data_shape=[1], shape=[-1], special_zero=False),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            execute(query, b"\0", None, None)
        assert caught.value.reason is Reason.FIELD_MISSING
