"""Queries as JSON, for tests of HTTP."""

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
