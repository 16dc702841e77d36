"""Which error comes first if a reshape request has two faults. docs/concepts/operations.md has the order."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

METHODS = {method.name.rpartition("/")[2]: method for method in ReshapeService(DEFAULT_LIMITS).methods.unary}
DATA = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[2, 3], data=bytes(24))


def write_items(request: Any, item: int) -> None:  # noqa: ANN401 - any request
    if isinstance(request, reshape_pb2.StaticReshapeRequest):
        request.shape.items[:] = [item]
    else:
        request.shape.data = item.to_bytes(4, "little", signed=True)


# The faults in the order in which they are reported. A fault that removes a field is made after the others.
FAULTS: dict[str, Callable[[Any], object]] = {
    "the data is missing": lambda request: request.ClearField("data"),
    "the data type is unknown": lambda request: request.data.ClearField("data_type"),
    "the shape is missing": lambda request: request.ClearField("shape"),
    "the shape has another type": lambda request: setattr(request.shape, "data_type", tensor_pb2.DATA_TYPE_F32),
    "the shape has rank 2": lambda request: request.shape.dims.append(1),
    "the shape has other bytes": lambda request: setattr(request.shape, "data", bytes(3)),
    "special_zero is missing": lambda request: request.ClearField("special_zero"),
    "the rank is too large": lambda request: request.data.dims.extend([1] * 70),
    "a dim is negative": lambda request: request.data.dims.__setitem__(0, -2),
    "an item is -2": lambda request: write_items(request, -2),
    "the volume differs": lambda request: write_items(request, 7),
    "strides are missing": lambda request: request.data.strides.append(1),
    "a stride is negative": lambda request: request.data.strides.extend([-3, 1]),
    "the data has other bytes": lambda request: setattr(request.data, "data", bytes(5)),
}
OF_SHAPE_TENSORS = {fault for fault in FAULTS if fault.startswith("the shape has")}
WRITE_THE_SAME = {"the shape has other bytes", "an item is -2", "the volume differs"}


def find_fault(method: str, faults: tuple[str, ...]) -> tuple[str, str]:
    """Returns the reason and the field of the error of a request with faults."""
    if method == "StaticReshape":
        request: Any = reshape_pb2.StaticReshapeRequest(data=DATA, special_zero=False)
        request.shape.items.append(6)
    else:
        kind = reshape_pb2.DynamicReshapeRequest if method == "DynamicReshape" else reshape_pb2.ReshapeRequest
        shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I32, dims=[1], data=b"\6\0\0\0")
        request = kind(data=DATA, shape=shape, special_zero=False)
    for fault in sorted(faults, key=lambda fault: fault.endswith("is missing")):
        FAULTS[fault](request)
    with pytest.raises(ReshapeError) as error:
        METHODS[method].respond(request.SerializeToString(), lambda: False)
    return str(error.value.reason), error.value.field


@pytest.mark.parametrize("method", ["StaticReshape", "DynamicReshape", "Reshape"])
def test_request_with_two_faults_has_the_error_of_the_first(method: str):
    faults = [fault for fault in FAULTS if method != "StaticReshape" or fault not in OF_SHAPE_TENSORS]
    for pair in combinations(faults, 2):
        if not WRITE_THE_SAME.issuperset(pair):
            assert find_fault(method, pair) == find_fault(method, pair[:1]), pair
