"""Reshapes of tensors of every element type, by this project and by OpenVINO: shape and bytes have to be the same.

Bytes are random in all places, behind the last element too. OpenVINO's own tensors say how many there are.
"""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np
import openvino
from openvino import opset1

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.arrays import view_array
from tensor_reshape.wire.reshapes import ReshapeCall, decode_reshape_response, encode_reshape_request
from tensor_reshape.wire.tensors import TensorView

_DIMS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9)
_SERVICE = ReshapeService(DEFAULT_LIMITS)


class Reshape(NamedTuple):
    """A tensor and a target that goes with it."""

    data_type: DataType
    dims: tuple[int, ...]
    target: tuple[int, ...]
    data: bytes


class Tensor(NamedTuple):
    """A result."""

    dims: tuple[int, ...]
    data: bytes


def generate_reshape(random: Random) -> Reshape:
    """Returns a random tensor of a random type, and a target that the rules allow."""
    data_type = random.choice(list(DataType))
    dims = tuple(random.choice(_DIMS) for _ in range(random.randint(0, 4)))
    target = list(dims)
    random.shuffle(target)
    if target and 0 not in target and random.random() < 0.5:
        target[random.randrange(len(target))] = -1
    data = random.randbytes(make_tensor(data_type, dims).byte_size)
    return Reshape(data_type, dims, tuple(target) if random.random() < 0.8 else (prod(dims),), data)


def reshape_ours(one: Reshape) -> Tensor:
    """Returns what this project makes of it, from message to message."""
    question = Question(
        operation=RESHAPE, data=one.dims, target=one.target, special_zero=False, data_type=one.data_type
    )
    data = TensorView(one.data_type, one.dims, None, memoryview(one.data))
    request = encode_reshape_request(ReshapeCall(question, data), view_array(np.array(one.target, np.int64), "shape"))
    output = decode_reshape_response(_SERVICE.execute(RESHAPE, request))
    return Tensor(tuple(output.dims), bytes(output.payload))


def reshape_theirs(one: Reshape) -> Tensor:
    """Returns what OpenVINO makes of it: what a node of Reshape-1 executes."""
    parameter = openvino.op.Parameter(find_type(one.data_type), openvino.PartialShape(list(one.dims)))
    target = openvino.op.Constant(openvino.Type.i64, openvino.Shape([len(one.target)]), list(one.target))
    output = run_node(opset1.reshape(parameter, target, False), parameter, one)
    return Tensor(tuple(output.shape), view_tensor(output).tobytes())


def run_node(node: Any, parameter: Any, one: Reshape) -> Any:  # noqa: ANN401 - OpenVINO has no types
    """Returns the output of a node for the data of `one`, as the reference implementation executes it.

    Raises:
        RuntimeError: it does not execute such a node.
    """
    output = openvino.Tensor(node.output(0).get_element_type(), node.output(0).get_shape())
    if not openvino.Model([node], [parameter], "node").evaluate([output], [load_tensor(one)]):
        message = f"OpenVINO does not execute {node}"
        raise RuntimeError(message)
    return output


def find_type(data_type: DataType) -> Any:  # noqa: ANN401 - OpenVINO has no types
    """Returns OpenVINO's type of the same name."""
    return getattr(openvino.Type, str(data_type))


def make_tensor(data_type: DataType, dims: Sequence[int]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    """Returns a tensor of OpenVINO's."""
    return openvino.Tensor(find_type(data_type), openvino.Shape(list(dims)))


def load_tensor(one: Reshape) -> Any:  # noqa: ANN401 - OpenVINO has no types
    """Returns the data of `one` as a tensor of OpenVINO's."""
    tensor = make_tensor(one.data_type, one.dims)
    view_tensor(tensor)[:] = np.frombuffer(one.data, np.uint8)
    return tensor


def view_tensor(tensor: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:  # noqa: ANN401 - OpenVINO has no types
    """Returns the bytes of a tensor, not copied."""
    flat: np.ndarray[Any, np.dtype[np.uint8]] = tensor.data.reshape(-1).view(np.uint8)
    return flat
