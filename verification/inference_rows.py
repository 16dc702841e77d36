"""The rows of the Open Inference Protocol: ModelInfer calls as clients of the protocol make them.

An output is compared by its elements, whether they are raw contents or numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np
from grpc import StatusCode

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from tensor_reshape.server.oip.datatypes import DATATYPES
from tensor_reshape.server.oip.messages import SERVICE, find_class
from verification.foreign_calls import BFLOAT16S, Failure, ForeignCall, read_failure

_MIB = 2**20
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
"""The fields with elements as numbers. The protocol has none for FP16 and BF16."""

_DTYPES = {name: np.dtype(data_type.numpy_name) for name, data_type in DATATYPES.items() if name != "BF16"}
_SEED = 12


class Tensor(NamedTuple):
    """An input or an output."""

    name: str
    datatype: str
    dims: Sequence[int]
    payload: bytes

    def describe(self, *, is_typed: bool = False) -> dict[str, Any]:
        """Returns the fields of the tensor, including its elements if they are numbers."""
        fields: dict[str, Any] = {"name": self.name, "datatype": self.datatype, "shape": self.dims}
        if is_typed:
            fields["contents"] = {
                _CONTENTS[self.datatype]: np.frombuffer(self.payload, _DTYPES[self.datatype]).tolist()
            }
        return fields


def write_raw_contents(response: Any) -> None:  # noqa: ANN401 - its class is made at run time
    """Converts the numbers of a response to raw contents, if it has numbers."""
    for output in response.outputs:
        for _, numbers in output.contents.ListFields():
            response.raw_output_contents.append(np.array(numbers, _DTYPES[output.datatype]).tobytes())
        output.ClearField("contents")


def make_data(datatype: str, dims: Sequence[int]) -> Tensor:
    """Returns small numbers as data, because every client encodes these in the same way as numbers."""
    numbers = Random(_SEED).choices(range(2 if datatype == "BOOL" else 100), k=prod(dims))
    return Tensor("data", datatype, dims, np.array(numbers).astype(_DTYPES[datatype]).tobytes())


def make_target(datatype: str, items: Sequence[int]) -> Tensor:
    return Tensor("shape", datatype, [len(items)], np.array(items, _DTYPES[datatype]).tobytes())


def make_call(model: str, inputs: Sequence[Tensor], output: Tensor | None, **fields: Any) -> ForeignCall:
    """Returns a call with the parameter `special_zero`."""
    is_typed = fields.pop("is_typed", False)
    request = find_class("ModelInferRequest")(
        model_name=model,
        inputs=[tensor.describe(is_typed=is_typed) for tensor in inputs],
        raw_input_contents=[] if is_typed else [tensor.payload for tensor in inputs],
        **{**fields, "parameters": {"special_zero": {"bool_param": True}, **fields.get("parameters", {})}},
    )
    if output is None:
        return ForeignCall(SERVICE.full_name, "ModelInfer", [request])
    response = find_class("ModelInferResponse")(
        model_name=model,
        model_version="1",
        id=fields.get("id", ""),
        outputs=[output.describe()],
        raw_output_contents=[output.payload],
    )
    return ForeignCall(SERVICE.full_name, "ModelInfer", [request], [response])


def make_reshape(operation: Operation, data: Tensor, target: Sequence[int], **fields: Any) -> ForeignCall:
    """Returns the call of a model that moves elements, with the requested shape as a parameter."""
    fields["parameters"] = {"shape": {"string_param": str(list(target))}}
    question = Question(operation, data.dims, target, special_zero=True, data_type=DATATYPES[data.datatype])
    try:
        output = Tensor("output", data.datatype, infer_shape(question), data.payload)
    except ReshapeError as error:
        failure = replace(read_failure(error), message="", metadata={})  # the message depends on the protocol
        return replace(make_call(operation.name, [data], None, **fields), failure=failure)
    return make_call(operation.name, [data], output, **fields)


def list_reshapes(dims: Sequence[int], target: Sequence[int], *, is_typed: bool = False) -> list[ForeignCall]:
    """Returns a call for each type of each model, except BF16, which some clients cannot encode."""
    return [
        make_reshape(operation, make_data(datatype, dims), target, is_typed=is_typed)
        for operation in OPERATIONS.values()
        for datatype in (_CONTENTS if is_typed else _DTYPES)
        if DATATYPES[datatype] in operation.data_types
    ]


def list_empty_reshapes() -> list[ForeignCall]:
    return [*list_reshapes((0, 3), (0, 1, 3)), *list_reshapes((2, 0, 4), (4, 0))]


def list_bfloat16_reshapes() -> list[ForeignCall]:
    data = Tensor("data", "BF16", BFLOAT16S.shape, BFLOAT16S.tobytes())
    return [make_reshape(operation, data, [3, -1]) for operation in OPERATIONS.values()]


def list_targets(datatype: str, *, is_first: bool = False) -> list[ForeignCall]:
    """Returns calls with the requested shape as an input, after or before the data."""
    data, target = make_data("FP32", (2, 3, 4)), make_target(datatype, [0, -1])
    inputs = [target, data] if is_first else [data, target]
    output = Tensor("output", "FP32", (2, 12), data.payload)
    return [make_call(name, inputs, output) for name in ("dynamic_reshape", "reshape")]


def list_names() -> list[ForeignCall]:
    """Returns calls whose responses repeat the id, and a call that requests the output by name."""
    return [make_reshape(RESHAPE, make_data("FP32", (6,)), [2, 3], id="a1-\u00e9", outputs=[{"name": "output"}])]


def list_questions() -> list[ForeignCall]:
    parameters = {"shape": {"string_param": "[0,-1]"}}
    data = Tensor("data_shape", "INT64", [3], np.array([2, 3, 4]).tobytes())
    output = Tensor("shape", "INT64", [2], np.array([2, 12]).tobytes())
    return [make_call("infer_shape", [data], output, parameters=parameters)]


def list_rejections() -> list[ForeignCall]:
    data = make_data("FP32", (2, 3))
    rules = [make_reshape(one, data, target) for one in OPERATIONS.values() for target in ([4, -1], [7], [-1, -1])]
    unknown = make_call("resnet", [data], None)
    return [*rules, replace(unknown, failure=Failure(StatusCode.NOT_FOUND, "MODEL_UNKNOWN"))]


def make_large_reshape(size: int) -> ForeignCall:
    data = Tensor("data", "UINT8", [2, size // 2], Random(_SEED).randbytes(size))
    return make_reshape(RESHAPE, data, [-1])


def list_deadlines() -> list[ForeignCall]:
    """Returns a call with a deadline that is too short to send the message."""
    late = replace(make_large_reshape(12 * _MIB), responses=(), seconds=0.001)
    return [replace(late, failure=Failure(StatusCode.DEADLINE_EXCEEDED))]


def list_messages_above_the_limit() -> list[ForeignCall]:
    """Returns messages that the server's transport rejects before parsing, so the error has no details."""
    large = replace(make_large_reshape(17 * _MIB), responses=())
    return [replace(large, failure=Failure(StatusCode.RESOURCE_EXHAUSTED))]


INFERENCE_ROWS: Mapping[str, Callable[[], list[ForeignCall]]] = {
    "a reshape of every type": partial(list_reshapes, (2, 3, 4), (0, -1)),
    "a scalar of every type": partial(list_reshapes, (), (1, 1)),
    "without elements": list_empty_reshapes,
    "bf16, bit for bit": list_bfloat16_reshapes,
    "elements as numbers": partial(list_reshapes, (2, 3), (3, 2), is_typed=True),
    "the requested shape as INT64": partial(list_targets, "INT64"),
    "the requested shape as INT32": partial(list_targets, "INT32"),
    "the requested shape in front": partial(list_targets, "INT64", is_first=True),
    "an id, and an output by name": list_names,
    "a shape without data": list_questions,
    "a message of 8 MiB": lambda: [make_large_reshape(8 * _MIB)],
    "a rejection, its reason decoded": list_rejections,
    "a deadline": list_deadlines,
    "a message above the limit": list_messages_above_the_limit,
}
