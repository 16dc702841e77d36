"""What the adapter of ONNX makes of questions of the kit, with the onnx that is installed here."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance_runs import Json, write_question, write_tensor
from tensor_reshape.client.queries import DimLike

ROOT = Path(__file__).parents[2]


def ask(implementation: str, *questions: Json) -> list[Json]:
    """Returns the answers of the adapter, without their ids; its versions come before them."""
    lines = [json.dumps({"id": str(number), "question": question}) for number, question in enumerate(questions)]
    command = [sys.executable, "-m", "conformance.adapters.onnx.adapter", implementation]
    ended = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    _, *answers = (json.loads(line) for line in ended.stdout.splitlines())
    assert [answer.pop("id") for answer in answers] == [str(number) for number in range(len(questions))]
    return answers


def write(data: Sequence[DimLike] | None, shape: Sequence[DimLike] | None, **changes: Any) -> Json:
    return write_question(**{"data_shape": data, "shape": shape, "special_zero": True, **changes})


def write_dims(*dims: int, partial: Sequence[Json] = ()) -> Json:
    return {"answer": {"shape": {"dims": [*dims], "partial": [*partial]}}}


def name(index: int) -> Json:
    return {"index": index, "symbol": {"name": "N", "bounds": {"min": 0}}}


def test_onnx_adapter_agrees_with_onnx_shape_inference():
    unanswered = "Dimension could not be inferred: incompatible shapes"
    limits = {"unsupported": "ONNX bounds no rank and no element type, as the graph operations do."}
    ones, dynamic = [1] * 13, {"operation": "dynamic_reshape"}
    strided = {**write([2, 3], [-1]), "data": write_tensor("DATA_TYPE_U8", [2, 3], bytes(6), strides=[1, 2])}
    rows: list[tuple[Json, Json]] = [
        (write([2, 3], [3, -1]), write_dims(3, 2)),
        (write(["N", 4, 5], [0, -1]), write_dims(-1, 20, partial=[name(0)])),
        (write([2, 3], [4, -1]), {"rejection": {"message": unanswered}}),
        (
            write(None, [3, -1, 0, None, "N"]),
            write_dims(3, -1, -1, -1, -1, partial=[{"index": 1}, {"index": 2}, {"index": 3}, name(4)]),
        ),
        (write([2, 3], None), {"answer": {}}),
        (write([0, 3], [5, 0], special_zero=False), write_dims(5, 0)),
        (write([(1, 3)], [-1]), {"unsupported": "A dim of ONNX has no bounds."}),
        (strided, {"unsupported": "Inference executes nothing."}),
        (
            write([2, 3], [-1], operation="static_reshape"),
            {"unsupported": "Of the three operations it has those whose target is a tensor."},
        ),
        (write([2], [-1], special_zero=None), {"unsupported": "ONNX's allowzero has a default."}),
        (write(["4*N"], [2, -1]), {"unsupported": "A name of ONNX is no product of names."}),
        (write(ones, [1], **dynamic), limits),
        (write([1], ones, **dynamic), limits),
        (write([2], [2], data_type="f64", **dynamic), limits),
        (write(ones, [1]), write_dims(1)),
    ]
    assert ask("onnx", *(question for question, _ in rows)) == [answer for _, answer in rows]


def test_onnx_without_data_propagation_infers_only_the_output_rank():
    questions = (write([2, 3], [3, 2], operation="dynamic_reshape"), write([2, 3], [3, 2]))
    unknown = write_dims(-1, -1, partial=[{"index": 0}, {"index": 1}])
    assert ask("onnx-without-propagation", *questions) == [unknown, write_dims(3, 2)]


def test_onnx_reference_adapter_accepts_packed_bytes_and_huge_shapes():
    packed = {**write([3], [3, 1]), "data": write_tensor("DATA_TYPE_U4", [3], b"\x21\x03")}
    answers = ask("onnx-reference", packed, write([2**62], [2**31, -1]))
    assert answers == [{"output": {"dims": [3, 1], "data": "IQM="}}, write_dims(2**31, 2**31)]
