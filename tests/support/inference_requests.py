"""Requests of the Open Inference Protocol, as its clients write them."""

from collections.abc import Sequence
from typing import Any

from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path

INFER = find_path("ModelInfer")
SIX = b"".join(bytes((0, 0, number, 64)) for number in range(6))
"""Six elements of FP32."""


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
    """Returns a ModelInferRequest whose target is a parameter."""
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


def read_response(raw: bytes) -> InferMessage:
    """Returns a ModelInferResponse."""
    return find_class("ModelInferResponse").FromString(raw)
