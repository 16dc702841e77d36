"""Buffers that this process cannot reshape. `test_batches` has buffers that it can, and those of a server."""

import pytest

from tensor_reshape.cli.executions import execute
from tensor_reshape.client import InferredShape, InvalidRequestError, Reason, ShapeQuery
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.v1 import tensor_pb2


def test_executing_a_query_requires_known_dims_and_a_data_type():
    for query in (
        ShapeQuery(data_shape=[None], shape=[-1], special_zero=False, data_type="u8", operation="reshape"),
        ShapeQuery(data_shape=[1], shape=[-1], special_zero=False),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            execute(query, tensor_pb2.Tensor(data=b"\0"), InferredShape(ShapeAnswer((1,))), None)
        assert caught.value.reason is Reason.FIELD_MISSING
