"""Requests of the Open Inference Protocol over REST."""

import json
from typing import Any

from http_calls import Reply, request
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER


def write_body(*, target: object = "[-1]", binary: object = None, **tensor: Any) -> bytes:
    """Returns the JSON of a request with one FP32 input of shape (2, 3).

    Args:
        target: the parameter with the requested shape.
        binary: the number of bytes of its elements after the JSON. By default, the elements are numbers.
        tensor: other values of the input.
    """
    elements = {"data": [1, 2, 3, 4, 5, 6.5]} if binary is None else {"parameters": {"binary_data_size": binary}}
    given = {"name": "data", "datatype": "FP32", "shape": [2, 3], **elements, **tensor}
    return json.dumps({"inputs": [given], "parameters": {"shape": target, "special_zero": False}}).encode()


def change_body(body: bytes, **fields: Any) -> bytes:
    """Returns a body with other values of its keys."""
    return json.dumps({**json.loads(body), **fields}).encode()


def send_infer(address: str, body: bytes, payload: bytes | None = None, model: str = "reshape") -> Reply:
    """Sends an inference request, whose JSON is followed by `payload`."""
    headers = {} if payload is None else {LENGTH_HEADER: str(len(body))}
    return request(address, "POST", f"/v2/models/{model}/infer", body + (payload or b""), headers)
