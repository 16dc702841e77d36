"""Requests of the Open Inference Protocol, as its clients write them."""

from collections.abc import Sequence
from typing import Any

from tensor_reshape.server.oip.messages import find_class, find_path

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
) -> Any:  # noqa: ANN401 - messages of the protocol have no types
    """Returns a ModelInferRequest whose target is a parameter."""
    request: Any = find_class("ModelInferRequest")(model_name=model, raw_input_contents=[payload], **fields)
    request.inputs.add(name="data", datatype=datatype, shape=shape)
    if target is not None:
        request.parameters["shape"].string_param = target
    if special_zero is not None:
        request.parameters["special_zero"].bool_param = special_zero
    return request


def read_response(raw: bytes) -> Any:  # noqa: ANN401 - as above
    """Returns a ModelInferResponse."""
    return find_class("ModelInferResponse").FromString(raw)
