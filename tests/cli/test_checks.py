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
    assert record["nodes"][0]["shape"] == [{"min": 1, "max": None, "name": "N"}, 12]
    assert run_command("check", "--local", "--explain", path).text.splitlines()[1:3] == [
        "  shape[0] is 0 and special_zero is true: data dim 0, N (1..)",
        "  shape[1] is -1: N*12 / N = 12",
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
    outcome = run_command("check", "--local", "--json", path)
    assert (outcome.code, outcome.errors, "not an ONNX model" in json.loads(outcome.output)["error"]) == (1, [], True)


def test_check_command_without_onnx_names_the_extra_to_install(tmp_path: Path):
    code = "import sys; sys.modules['onnx'] = None; from tensor_reshape.cli.__main__ import main; main()"
    command = (sys.executable, "-c", code, "check", "--local", save(tmp_path, GOOD))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    advice = "pip install 'tensor-reshape[onnx]', or in a copy of the repository: pip install '.[onnx]'"
    assert (done.returncode, advice in done.stderr) == (1, True)


FROZEN = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch,16,4,4] x, float[k,2] w) => (float[] y)
{ s = Constant<value_ints=[1,256]>() y = Reshape(x, s) }"""
FROZEN_LINES = """y: [batch, 16, 4, 4] under [1, 256] is [1, 256]
This model requires: batch = 1 (declared dynamic; node y)
1 Reshape node: 1 known; verdict: frozen"""
CONTRADICTING = """<ir_version: 8, opset_import: ["" : 17]> g (float[n,12] x) => (float[] y, float[] z)
{ s = Constant<value_ints=[2,12]>() y = Reshape(x, s) t = Constant<value_ints=[3,12]>() z = Reshape(x, t) }"""


def test_check_command_prints_what_the_model_requires(tmp_path: Path, server: ServerProcess):
    path = save(tmp_path, FROZEN)
    for outcome in (ask(server, "check", path), run_command("check", "--local", path)):
        assert (outcome.code, outcome.text) == (0, FROZEN_LINES)


def test_check_command_fails_for_verdicts_of_fail_on(tmp_path: Path):
    frozen, restricted = (tmp_path / name for name in ("frozen", "restricted"))
    models = {frozen: FROZEN, restricted: FROZEN.replace("[1,256]", "[3,-1]"), tmp_path / "ok": GOOD}
    codes = []
    for folder, text in models.items():
        folder.mkdir()
        path = save(folder, text)
        codes.append(
            [
                run_command("check", "--local", "--fail-on", words, path).code
                for words in ("frozen", "frozen,restricted")
            ]
        )
    assert codes == [[3, 3], [0, 3], [0, 0]]


def test_check_command_rejects_an_unknown_verdict_of_fail_on(tmp_path: Path):
    outcome = run_command("check", "--local", "--fail-on", "frozen,open", save(tmp_path, FROZEN))
    assert (outcome.code, outcome.errors[-1]) == (
        2,
        "Error: Invalid value for '--fail-on': 'open' is not one of frozen, restricted",
    )


def test_check_command_names_the_nodes_that_contradict_each_other(tmp_path: Path):
    outcome = run_command("check", "--local", save(tmp_path, CONTRADICTING))
    assert (outcome.code, outcome.text.splitlines()[-2:]) == (
        3,
        [
            "This model accepts no input with elements: n = 2 (node y), n = 3 (node z)",
            "2 Reshape nodes: 2 known; verdict: contradiction",
        ],
    )


def test_check_command_prints_requirements_of_elements_only_with_explain(tmp_path: Path):
    nodes = "n = Shape<start=0, end=1>(x) r = Constant<value_ints=[-1,2]>() s = Concat<axis=0>(n, r) y = Reshape(x, s)"
    path = save(tmp_path, f"{GOOD.replace('[N,rest]', '[]').partition('{')[0]} {{ {nodes} }}")
    line = "This model requires: N >= 1 (node y)"
    shown = [run_command("check", "--local", *options, path).text.splitlines() for options in ((), ("--explain",))]
    assert [line in lines for lines in shown] == [False, True]


def test_check_command_writes_requirements_as_json(tmp_path: Path):
    record = json.loads(run_command("check", "--local", "--json", save(tmp_path, CONTRADICTING)).output)
    assert record["verdict"] == "contradiction"
    assert [(one["text"], one["nodes"], one["verdict"]) for one in record["requires"]] == [
        ("n = 2", [0], "frozen"),
        ("n = 3", [1], "frozen"),
    ]
    assert [(one["text"], one["node"]) for one in record["contradiction"]] == [("n = 2", 0), ("n = 3", 1)]
    assert "profiles" not in record


def test_check_command_names_the_node_that_rejects_a_profile(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    outcome = run_command("check", "--local", "--profile", "x=1x16x4x4,4x16x4x4", "--profile", "w=5x2", path)
    accepted, rejected, node = outcome.text.splitlines()[-3:]
    assert (outcome.code, accepted, rejected) == (
        3,
        "profile x=1x16x4x4 w=5x2: accepted",
        "profile x=4x16x4x4 w=5x2: rejected",
    )
    assert node.startswith("  y: [4, 16, 4, 4] under [1, 256] rejected: ")
    assert run_command("check", "--local", "--profile", "x=1x16x4x4", path).code == 0
    assert run_command("check", "--local", "--profile", "x=1,16,4,4", path).code == 0


def test_check_command_writes_profiles_as_json(tmp_path: Path):
    options = ("--local", "--json", "--profile", "x=1x16x4x4,4x16x4x4")
    record = json.loads(run_command("check", *options, save(tmp_path, FROZEN)).output)
    accepted, rejected = record["profiles"]
    assert accepted == {
        "inputs": {"x": [1, 16, 4, 4]},
        "result": "accepted",
        "rejecting": [],
        "undecided": [],
        "notes": [],
    }
    assert [(one["node"], one["error"]["reason"]) for one in rejected["rejecting"]] == [(0, "VOLUME_MISMATCH")]


def test_check_command_names_nodes_that_a_profile_leaves_undecided(tmp_path: Path):
    outcome = run_command("check", "--local", "--profile", "w=5x2", save(tmp_path, FROZEN))
    assert (outcome.code, outcome.text.splitlines()[-1]) == (0, "profile w=5x2: undecided, because of unknown dims: y")


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("z=1", "--profile: the model has no input z; its inputs are x, w"),
        ("x=1", "--profile: the shape [1] of x has rank 1; the model declares [batch, 16, 4, 4], of rank 4"),
        ("x=1x3x4x4", "--profile: dim 1 of x is 3; the model declares 16"),
    ],
)
def test_check_command_rejects_wrong_profiles_with_one_line(tmp_path: Path, profile: str, message: str):
    outcome = run_command("check", "--local", "--profile", profile, save(tmp_path, FROZEN))
    assert (outcome.code, outcome.text, outcome.errors) == (2, "", [f"Error: {message}"])


def test_check_command_rejects_profiles_with_different_numbers_of_shapes(tmp_path: Path):
    options = ("--profile", "x=1x16x4x4,2x16x4x4", "--profile", "w=1x2,2x2,3x2")
    outcome = run_command("check", "--local", *options, save(tmp_path, FROZEN))
    message = "--profile has 2 shapes for x and 3 for another input: use as many, or one"
    assert (outcome.code, outcome.errors) == (2, [f"Error: {message}"])
