"""Requests of the Open Inference Protocol, as clients write them."""

from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np

from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path

INFER = find_path("ModelInfer")
SIX = b"".join(bytes((0, 0, number, 64)) for number in range(6))
"""Six FP32 elements."""


def build_request(
    model: str = "reshape",
    shape: Sequence[int] = (2, 3),
    payload: bytes = SIX,
    *,
    datatype: str = "FP32",
    target: str | None = "[3,-1]",
    special_zero: bool | None = False,
    **fields: Any,
) -> InferMessage:
    """Returns a ModelInferRequest whose requested shape is a parameter."""
    parameter = find_class("InferParameter")
    texts = {} if target is None else {"shape": parameter(string_param=target)}
    flags = {} if special_zero is None else {"special_zero": parameter(bool_param=special_zero)}
    request: dict[str, object] = {
        "model_name": model,
        "raw_input_contents": [payload],
        "parameters": {**texts, **flags},
    }
    request["inputs"] = [{"name": "data", "datatype": datatype, "shape": shape}]
    return find_class("ModelInferRequest")(**{**request, **fields})


def build_typed_request(
    numbers: Sequence[int], *, datatype: str = "INT8", target: str = "[-1]", **fields: Any
) -> InferMessage:
    """Returns a ModelInferRequest whose elements are numbers."""
    data = {"name": "data", "datatype": datatype, "shape": [len(numbers)], "contents": {"int_contents": numbers}}
    return build_request(inputs=[data], raw_input_contents=[], target=target, **fields)


def build_question(dims: Sequence[int], target: str, **fields: Any) -> InferMessage:
    """Returns a ModelInferRequest for an output shape."""
    data = {"name": "data_shape", "datatype": "INT64", "shape": [len(dims)]}
    return build_request("infer_shape", inputs=[data], payload=np.array(dims, "<i8").tobytes(), target=target, **fields)


def send_request(channel: grpc.Channel, method: str, request: InferMessage, timeout: float = 20) -> InferMessage:
    call: grpc.UnaryUnaryMultiCallable[InferMessage, InferMessage] = channel.unary_unary(
        find_path(method), type(request).SerializeToString, find_class(f"{method}Response").FromString
    )
    return call(request, timeout=timeout)


def read_response(raw: bytes) -> InferMessage:
    return find_class("ModelInferResponse").FromString(raw)
