"""What the adapter of ONNX makes of questions of the kit, with the onnx that is installed here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
N = {"min": 0, "max": None, "name": "N"}


def ask(implementation: str, *questions: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the answers, without their ids, of the program that the adapter is; it tells its versions before them."""
    lines = [
        json.dumps({"id": str(number), "operation": "reshape", "special_zero": True, **question})
        for number, question in enumerate(questions)
    ]
    command = [sys.executable, "-m", "conformance.adapters.onnx.adapter", implementation]
    ended = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    _, *answers = (json.loads(line) for line in ended.stdout.splitlines())
    assert [answer.pop("id") for answer in answers] == [str(number) for number in range(len(questions))]
    return answers


def test_inference_answers_what_onnx_says_of_a_node():
    known, copied, refused, unranked, unknown = ask(
        "onnx",
        {"data": [2, 3], "shape": [3, -1]},
        {"data": ["N", 4, 5], "shape": [0, -1]},
        {"data": [2, 3], "shape": [4, -1]},
        {"data": None, "shape": [3, -1, 0, None, "N"]},
        {"data": [2, 3], "shape": None},
    )

    assert known == {"shape": [3, 2]}
    assert copied == {"shape": [N, 20]}
    assert refused == {"error": {"message": "Dimension could not be inferred: incompatible shapes"}}
    assert unranked == {"shape": [3, None, None, None, N]}
    assert unknown == {"shape": None}


def test_special_zero_is_what_allowzero_is_not():
    (literal,) = ask("onnx", {"data": [0, 3], "shape": [5, 0], "special_zero": False})

    assert literal == {"shape": [5, 0]}


def test_without_propagation_inference_knows_the_length_of_a_target_that_is_computed():
    computed, constant = ask(
        "onnx-without-propagation",
        {"data": [2, 3], "shape": [3, 2], "operation": "dynamic_reshape"},
        {"data": [2, 3], "shape": [3, 2]},
    )

    assert computed == {"shape": [None, None]}
    assert constant == {"shape": [3, 2]}


def test_the_evaluator_is_given_bytes_and_shapes_that_no_memory_holds():
    packed, huge = ask(
        "onnx-reference",
        {"data": [3], "shape": [3, 1], "data_type": "u4", "bytes": "2103"},
        {"data": [2**62], "shape": [2**31, -1]},
    )

    assert packed == {"shape": [3, 1], "bytes": "2103"}
    assert huge == {"shape": [2**31, 2**31]}


def test_what_onnx_cannot_say_is_not_asked():
    bounded, strided, static, absent, product = ask(
        "onnx",
        {"data": [[1, 3]], "shape": [-1]},
        {"data": [2, 3], "shape": [-1], "strides": [1, 2]},
        {"data": [2, 3], "shape": [-1], "operation": "static_reshape"},
        {"data": [2, 3], "shape": [-1], "special_zero": None},
        {"data": [{"min": 0, "max": None, "name": "4*N"}], "shape": [2, -1]},
    )

    assert [bounded, strided, static, absent, product] == [
        {"unsupported": "A dim of ONNX has no bounds."},
        {"unsupported": "A tensor of ONNX has no strides."},
        {"unsupported": "Of the three operations it has those whose target is a tensor."},
        {"unsupported": "ONNX's allowzero has a default."},
        {"unsupported": "A name of ONNX is no product of names."},
    ]


def test_limits_of_the_graph_operations_are_not_asked_of_onnx():
    ones = [1] * 13
    of_a_graph, long_target, other_type, of_reshape = ask(
        "onnx",
        {"data": ones, "shape": [1], "operation": "dynamic_reshape"},
        {"data": [1], "shape": ones, "operation": "dynamic_reshape"},
        {"data": [2], "shape": [2], "operation": "dynamic_reshape", "data_type": "f64"},
        {"data": ones, "shape": [1]},
    )

    reason = {"unsupported": "ONNX bounds no rank and no element type, as the graph operations do."}
    assert [of_a_graph, long_target, other_type] == [reason] * 3
    assert of_reshape == {"shape": [1]}
