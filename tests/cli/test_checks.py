"""`tensor-reshape check`: the Reshape nodes of a model."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser

from command_line import ask, run_command
from server_processes import ServerProcess

GOOD = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4] x) => (float[N,rest] y)
{ s = Constant<value_ints=[0,-1]>() y = Reshape(x, s) }"""
WRONG = GOOD.replace("[N,rest]", "[N,13]")
REFUSED = GOOD.replace("[N,3,4]", "[2,3,4]").replace("[0,-1]", "[5,-1]")


def save(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def test_a_model_in_order_is_told_in_a_line_for_each_node(tmp_path: Path, server: ServerProcess):
    path = save(tmp_path, GOOD)
    remote, local = ask(server, "check", path), run_command("check", "--local", path)
    assert (
        (remote.code, remote.text)
        == (local.code, local.text)
        == (
            0,
            "y: [N, 3, 4] under [0, -1] is [N, 12]\n1 Reshape node: 1 known",
        )
    )


@pytest.mark.parametrize(("text", "word"), [(WRONG, "  the model says that dim 1 is 13"), (REFUSED, "refused: ")])
def test_a_model_that_is_wrong_ends_with_3(text: str, word: str, tmp_path: Path):
    outcome = run_command("check", "--local", save(tmp_path, text))
    assert (outcome.code, word in outcome.text) == (3, True)


def test_a_name_that_a_terminal_would_obey_is_escaped(tmp_path: Path):
    path = save(tmp_path, GOOD)
    model = onnx.load(path)
    model.graph.node[1].name = "\x1b[31mred\nline"
    onnx.save(model, path)
    assert run_command("check", "--local", path).text.startswith("\\x1b[31mred\\nline: [N, 3, 4]")


def test_an_explanation_says_where_each_dim_comes_from(tmp_path: Path):
    lines = run_command("check", "--local", "--explain", save(tmp_path, GOOD)).text.splitlines()
    assert lines[1:3] == [
        "  shape[0] is 0 and special_zero is true: data dim 0, N",
        "  shape[1] is -1: 12 / 1, the copied dims left out = 12",
    ]


def test_an_item_that_copies_in_some_run_is_told(tmp_path: Path):
    nodes = "one = Constant<value_ints=[1]>() n = Shape<start=0, end=1>(w) s = Concat<axis=0>(n, one) y = Reshape(x, s)"
    text = GOOD.replace("[N,3,4] x", "[2,3] x, float[K] w").replace("[N,rest]", "[]")
    path = save(tmp_path, f"{text.partition('{')[0]} {{ {nodes} }}")
    assert run_command("check", "--local", path).text.splitlines()[1] == (
        "  shape[0] is K; where that is 0 it copies dim 0: asked for as ?"
    )
    record = json.loads(run_command("check", "--local", "--json", path).output)
    assert record["nodes"][0]["copying"] == [0]


def test_json_is_the_report(tmp_path: Path):
    record = json.loads(run_command("check", "--local", "--json", save(tmp_path, GOOD)).output)
    assert record["counts"]["known"] == 1
    assert record["nodes"][0]["shape"] == [{"min": 0, "max": None, "name": "N"}, 12]


def test_the_shapes_are_written_to_another_file(tmp_path: Path):
    path, target = save(tmp_path, GOOD.replace("float[N,rest] y", "float[] y")), tmp_path / "annotated.onnx"
    assert run_command("check", "--local", "--write", target, path).code == 0
    dims = onnx.load(target).graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == ["N", 12]
    assert not onnx.load(path).graph.output[0].type.tensor_type.HasField("shape")


def test_the_model_itself_is_not_written_over(tmp_path: Path):
    path = save(tmp_path, GOOD)
    before = path.read_bytes()
    outcome = run_command("check", "--local", "--write", path, path)
    assert (outcome.code, path.read_bytes()) == (2, before)


def test_what_is_no_model_is_one_line(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"PK\x03\x04")
    outcome = run_command("check", "--local", path)
    assert (outcome.code, outcome.text, len(outcome.errors)) == (1, "", 1)


def test_without_the_extra_it_is_told_what_to_install(tmp_path: Path):
    code = "import sys; sys.modules['onnx'] = None; from tensor_reshape.cli.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", "--local", save(tmp_path, GOOD)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "pip install 'tensor-reshape[onnx]'" in done.stderr) == (1, True)
