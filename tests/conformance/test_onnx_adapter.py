"""What the adapter of ONNX makes of questions of the kit, with the onnx that is installed here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
N = {"min": 0, "max": None, "name": "N"}


def ask(implementation: str, *questions: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the answers of the adapter, without their ids; its versions come before them."""
    lines = [
        json.dumps({"id": str(number), "operation": "reshape", "special_zero": True, **question})
        for number, question in enumerate(questions)
    ]
    command = [sys.executable, "-m", "conformance.adapters.onnx.adapter", implementation]
    ended = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    _, *answers = (json.loads(line) for line in ended.stdout.splitlines())
    assert [answer.pop("id") for answer in answers] == [str(number) for number in range(len(questions))]
    return answers


def test_onnx_adapter_agrees_with_onnx_shape_inference():
    unanswered = "Dimension could not be inferred: incompatible shapes"
    limits = {"unsupported": "ONNX bounds no rank and no element type, as the graph operations do."}
    ones, dynamic = [1] * 13, {"operation": "dynamic_reshape"}
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"data": [2, 3], "shape": [3, -1]}, {"shape": [3, 2]}),
        ({"data": ["N", 4, 5], "shape": [0, -1]}, {"shape": [N, 20]}),
        ({"data": [2, 3], "shape": [4, -1]}, {"error": {"message": unanswered}}),
        ({"data": None, "shape": [3, -1, 0, None, "N"]}, {"shape": [3, None, None, None, N]}),
        ({"data": [2, 3], "shape": None}, {"shape": None}),
        ({"data": [0, 3], "shape": [5, 0], "special_zero": False}, {"shape": [5, 0]}),
        ({"data": [[1, 3]], "shape": [-1]}, {"unsupported": "A dim of ONNX has no bounds."}),
        ({"data": [2, 3], "shape": [-1], "strides": [1, 2]}, {"unsupported": "A tensor of ONNX has no strides."}),
        (
            {"data": [2, 3], "shape": [-1], "operation": "static_reshape"},
            {"unsupported": "Of the three operations it has those whose target is a tensor."},
        ),
        ({"data": [2], "shape": [-1], "special_zero": None}, {"unsupported": "ONNX's allowzero has a default."}),
        ({"data": ["4*N"], "shape": [2, -1]}, {"unsupported": "A name of ONNX is no product of names."}),
        ({"data": ones, "shape": [1], **dynamic}, limits),
        ({"data": [1], "shape": ones, **dynamic}, limits),
        ({"data": [2], "shape": [2], "data_type": "f64", **dynamic}, limits),
        ({"data": ones, "shape": [1]}, {"shape": [1]}),
    ]
    assert ask("onnx", *(question for question, _ in rows)) == [answer for _, answer in rows]


def test_onnx_without_data_propagation_infers_only_the_output_rank():
    questions = ({"data": [2, 3], "shape": [3, 2], "operation": "dynamic_reshape"}, {"data": [2, 3], "shape": [3, 2]})
    assert ask("onnx-without-propagation", *questions) == [{"shape": [None, None]}, {"shape": [3, 2]}]


def test_onnx_reference_adapter_accepts_packed_bytes_and_huge_shapes():
    packed = {"data": [3], "shape": [3, 1], "data_type": "u4", "bytes": "2103"}
    answers = ask("onnx-reference", packed, {"data": [2**62], "shape": [2**31, -1]})
    assert answers == [{"shape": [3, 1], "bytes": "2103"}, {"shape": [2**31, 2**31]}]
