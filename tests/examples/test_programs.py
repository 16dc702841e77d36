"""The examples that are programs print what they should, and the ONNX file has the model of the page."""

import re
import subprocess
import sys

import onnx
import pytest
from onnx import parser

from documents import ROOT
from http_calls import find_http
from server_processes import ServerProcess, run_server

ENCODER = """
    <ir_version: 8, opset_import: ["" : 17]>
    encoder (float[batch, seq, 768] x) => (float[] joined, float[batch, 700] pooled) {
        shape = Shape(x)
        first = Constant<value_ints = [0]>()
        size = Gather(shape, first)
        rest = Constant<value_ints = [-1, 12, 64]>()
        target = Concat<axis = 0>(size, rest)
        heads = Reshape(x, target)
        swapped = Transpose<perm = [0, 2, 1, 3]>(heads)
        rows = Constant<value_ints = [0, 12, -1]>()
        joined = Reshape(swapped, rows)
        largest = ReduceMax<axes = [1], keepdims = 0>(x)
        flat = Constant<value_ints = [0, -1]>()
        pooled = Reshape(largest, flat)
    }
"""


FROZEN_BATCH = """
    <ir_version: 8, opset_import: ["" : 17]>
    classifier (float[batch, 16, 4, 4] images) => (float[batch, 256] rows) {
        shape = Constant<value_ints = [1, 256]>()
        rows = Reshape(images, shape)
    }
"""


@pytest.mark.parametrize(("name", "text"), [("encoder", ENCODER), ("frozen_batch", FROZEN_BATCH)])
def test_model_of_the_examples_matches_its_text_source(name: str, text: str):
    assert onnx.load(ROOT / f"examples/{name}.onnx") == parser.parse_model(text)


def test_inference_graph_example_prints_the_output_of_the_last_step():
    with run_server("--http-listen", "127.0.0.1:0") as server:
        command = (sys.executable, ROOT / "examples/inference_graph.py", find_http(server))
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed == [
        "encoder: [4, 3] -> [4, 2]",
        "reshape: [4, 2] -> [2, 4]",
        "decoder: [2, 4] -> [2, 1]",
        "[22.0, 70.0]",
    ]


LEAST_PERCENT = 80


def test_two_models_example_runs_without_an_error(server: ServerProcess):
    command = (sys.executable, ROOT / "examples/two_models.py", server.address)
    shapes, result = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert shapes == "[N, 2, 4, 2, 4] -> [4*N, 16] -> first model -> [4*N, 8] -> [N, 32] -> second model"
    # With elements in wrong places, only one in ten would be right.
    (percent,) = re.findall(r"^(\d+)% of 597 digits are recognized$", result)
    assert int(percent) > LEAST_PERCENT


def test_digits_example_starts_its_own_server_and_succeeds():
    result = subprocess.run([sys.executable, ROOT / "examples/digits.py"], capture_output=True, text=True, check=True)
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["float32", "float16", "bfloat16"]
