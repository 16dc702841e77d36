"""Queries and inference requests as JSON, for tests of HTTP."""

import json
from typing import Any

from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE

INFER_PATH, BATCH_PATH = INFER_SHAPE.path, BATCH_INFER_SHAPE.path

QUESTION: dict[str, Any] = {
    "operation": "OPERATION_RESHAPE",
    "special_zero": True,
    "data": {"shape": {"dims": ["2", "-1"], "partial": [{"index": 1, "symbol": {"name": "N"}}]}},
    "shape": {"items": ["-1"]},
}
"""Reshape-1 of (2,N) to one dim."""

ANSWER: dict[str, Any] = {
    "shape": {
        "dims": ["-1"],
        "partial": [{"index": 0, "expression": {"coefficient": "2", "factors": [{"name": "N"}]}}],
    },
    "conditionsComplete": True,
}
"""The response: 2*N."""


def write_json(document: object) -> bytes:
    return json.dumps(document).encode()


def write_batch(count: int, question: dict[str, Any] = QUESTION) -> bytes:
    return write_json({"items": [{"question": question}] * count})


def write_body(*, target: object = "[-1]", binary: object = None, **tensor: Any) -> bytes:
    """Returns the JSON of a request with one FP32 input of shape (2, 3)."""
    elements = {"data": [1, 2, 3, 4, 5, 6.5]} if binary is None else {"parameters": {"binary_data_size": binary}}
    given = {"name": "data", "datatype": "FP32", "shape": [2, 3], **elements, **tensor}
    return json.dumps({"inputs": [given], "parameters": {"shape": target, "special_zero": False}}).encode()


def change_body(body: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(body), **fields}).encode()
