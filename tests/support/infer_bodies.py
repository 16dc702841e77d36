"""The JSON of inference requests over REST."""

import json
from typing import Any


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
