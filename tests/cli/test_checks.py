"""`tensor-reshape check`: the Reshape nodes of a model."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
from onnx import parser

from command_line import ask, run_command
from server_processes import ServerProcess

GOOD = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4] x) => (float[N,rest] y)
{ s = Constant<value_ints=[0,-1]>() y = Reshape(x, s) }"""
WRONG = GOOD.replace("[N,rest]", "[N,13]")
REJECTED = GOOD.replace("[N,3,4]", "[2,3,4]").replace("[0,-1]", "[5,-1]")


def save(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def test_check_command_prints_a_line_for_each_reshape_node(tmp_path: Path, server: ServerProcess):
    path = save(tmp_path, GOOD)
    text = "y: [N, 3, 4] under [0, -1] is [N, 12]\n1 Reshape node: 1 known"
    assert [(one.code, one.text) for one in (ask(server, "check", path), run_command("check", "--local", path))] == [
        (0, text),
        (0, text),
    ]
    record = json.loads(run_command("check", "--local", "--json", path).output)
    assert record["counts"]["known"] == 1
    assert record["nodes"][0]["shape"] == [{"min": 0, "max": None, "name": "N"}, 12]
    assert run_command("check", "--local", "--explain", path).text.splitlines()[1:3] == [
        "  shape[0] is 0 and special_zero is true: data dim 0, N",
        "  shape[1] is -1: 12 / 1, the copied dims left out = 12",
    ]


def test_check_command_exits_with_3_for_a_wrong_model(tmp_path: Path):
    rejected = "y: [2, 3, 4] under [5, -1] rejected: shape[1] is -1: 24 elements are not divisible by 5"
    for text, word in (
        (WRONG, "  the model says that dim 1 is 13"),
        (REJECTED, rejected),
        (REJECTED, "[NOT_DIVISIBLE]\n"),
    ):
        outcome = run_command("check", "--local", save(tmp_path, text))
        assert (outcome.code, word in outcome.text) == (3, True), text


def test_check_command_escapes_control_characters_in_node_names(tmp_path: Path):
    path = save(tmp_path, GOOD)
    model = onnx.load(path)
    model.graph.node[1].name = "\x1b[31mred\nline"
    onnx.save(model, path)
    assert run_command("check", "--local", path).text.startswith("\\x1b[31mred\\nline: [N, 3, 4]")


def test_check_command_names_a_target_item_that_may_be_zero(tmp_path: Path):
    nodes = "one = Constant<value_ints=[1]>() n = Shape<start=0, end=1>(w) s = Concat<axis=0>(n, one) y = Reshape(x, s)"
    text = GOOD.replace("[N,3,4] x", "[2,3] x, float[K] w").replace("[N,rest]", "[]")
    path = save(tmp_path, f"{text.partition('{')[0]} {{ {nodes} }}")
    line = "  shape[0] is K; if it is 0, it copies dim 0: treated as unknown"
    assert run_command("check", "--local", path).text.splitlines()[1] == line
    record = json.loads(run_command("check", "--local", "--json", path).output)
    assert record["nodes"][0]["copying"] == [0]


def test_check_command_never_writes_shapes_into_its_input_file(tmp_path: Path):
    path, target = save(tmp_path, GOOD.replace("float[N,rest] y", "float[] y")), tmp_path / "annotated.onnx"
    before = path.read_bytes()
    assert run_command("check", "--local", "--write", target, path).code == 0
    dims = onnx.load(target).graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == ["N", 12]
    assert (run_command("check", "--local", "--write", path, path).code, path.read_bytes()) == (2, before)


def test_check_command_prints_one_error_line_for_invalid_model_files(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"PK\x03\x04")
    outcome = run_command("check", "--local", path)
    assert (outcome.code, outcome.text, len(outcome.errors)) == (1, "", 1)


def test_check_command_without_onnx_names_the_extra_to_install(tmp_path: Path):
    code = "import sys; sys.modules['onnx'] = None; from tensor_reshape.cli.__main__ import main; main()"
    command = (sys.executable, "-c", code, "check", "--local", save(tmp_path, GOOD))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "pip install 'tensor-reshape[onnx]'" in done.stderr) == (1, True)
