"""`tensor-reshape check`: the Reshape nodes of a model, and the forms of its output."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

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
    text = "y: [N, 3, 4] under [0, -1] is [N, 12]\nok: 1 Reshape node (1 known), 5 sizes tried"
    assert [(one.code, one.text) for one in (ask(server, "check", path), run_command("check", path))] == [
        (0, text),
        (0, text),
    ]
    record = json.loads(run_command("check", "--json", path).output)
    assert record["counts"]["known"] == 1
    assert record["nodes"][0]["answer"]["shape"]["dims"] == [-1, 12]
    assert run_command("check", "--explain", path).text.splitlines()[1:3] == [
        "  shape[0] is 0 and special_zero is true: input dimension 0, N (1..)",
        "  shape[1] is -1: N*12 / N = 12",
    ]


def test_check_command_exits_with_3_for_a_rejected_node(tmp_path: Path):
    outcome = run_command("check", save(tmp_path, REJECTED))
    assert outcome.code == 3
    assert outcome.text.startswith("y: [2, 3, 4] under [5, -1] rejected: shape[1] is -1: 24 elements are not divisible")
    assert outcome.text.splitlines()[-1] == "rejected: 1 Reshape node (1 rejected), 1 size tried"


def test_wrong_declared_shape_fails_only_with_fail_on(tmp_path: Path):
    path = save(tmp_path, WRONG)
    outcome = run_command("check", path)
    assert (outcome.code, outcome.text.splitlines()[1]) == (
        0,
        "  the model says that dimension 1 is 13; the shape is [N, 12]",
    )
    assert run_command("check", "--fail-on", "disagrees", path).code == 3


def test_check_command_names_a_target_item_that_may_be_zero(tmp_path: Path):
    nodes = "one = Constant<value_ints=[1]>() n = Shape<start=0, end=1>(w) s = Concat<axis=0>(n, one) y = Reshape(x, s)"
    text = GOOD.replace("[N,3,4] x", "[2,3] x, float[K] w").replace("[N,rest]", "[]")
    path = save(tmp_path, f"{text.partition('{')[0]} {{ {nodes} }}")
    line = "  shape[0] is K; if it is 0, it copies dimension 0: treated as unknown"
    assert run_command("check", path).text.splitlines()[1] == line
    record = json.loads(run_command("check", "--json", path).output)
    assert record["nodes"][0]["copying"] == [0]


def test_check_command_never_writes_shapes_into_its_input_file(tmp_path: Path):
    path, target = save(tmp_path, GOOD.replace("float[N,rest] y", "float[] y")), tmp_path / "annotated.onnx"
    before = path.read_bytes()
    assert run_command("check", "--write", target, path).code == 0
    dims = onnx.load(target).graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == ["N", 12]
    assert (run_command("check", "--write", path, path).code, path.read_bytes()) == (2, before)


def test_check_command_prints_one_error_line_for_invalid_model_files(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"PK\x03\x04")
    outcome = run_command("check", path)
    assert (outcome.code, outcome.text) == (2, "")
    assert outcome.errors == [f"Error: {path}: not an ONNX model: it is not a ModelProto"]
    outcome = run_command("check", "--json", path)
    assert (outcome.code, outcome.errors, "not an ONNX model" in json.loads(outcome.output)["error"]) == (2, [], True)


def test_check_command_writes_nothing_for_an_invalid_model(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"PK\x03\x04")
    assert run_command("check", "--write", tmp_path / "copy.onnx", path).code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_check_command_without_onnx_names_the_extra_to_install(tmp_path: Path):
    code = "import sys; sys.modules['onnx'] = None; from tensor_reshape.cli.__main__ import main; main()"
    command = (sys.executable, "-c", code, "check", save(tmp_path, GOOD))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, 'pip install "tensor-reshape[onnx]"' in done.stderr) == (1, True)


FROZEN = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch,16,4,4] x, float[k,2] w) => (float[] y)
{ s = Constant<value_ints=[1,256]>() y = Reshape(x, s) }"""
VERDICTS = ("rejected", "contradiction", "frozen", "restricted", "disagrees", "leaves")
FROZEN_LINES = """y: [batch, 16, 4, 4] under [1, 256] is [1, 256]
  write [0, 256] instead of [1, 256] to keep batch dynamic
This model requires: batch = 1 (declared dynamic; node y)
frozen: 1 Reshape node (1 known), 11 sizes tried"""
MOVED = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch,8] x) => (float[] y)
{ s = Constant<value_ints=[1,-1]>() y = Reshape(x, s) }"""
CONTRADICTING = """<ir_version: 8, opset_import: ["" : 17]> g (float[n,12] x) => (float[] y, float[] z)
{ s = Constant<value_ints=[2,12]>() y = Reshape(x, s) t = Constant<value_ints=[3,12]>() z = Reshape(x, t) }"""


def test_check_command_prints_what_the_model_requires(tmp_path: Path, server: ServerProcess):
    path = save(tmp_path, FROZEN)
    for outcome in (ask(server, "check", path), run_command("check", path)):
        assert (outcome.code, outcome.text) == (3, FROZEN_LINES)


def test_check_command_fails_for_verdicts_of_fail_on(tmp_path: Path):
    frozen, restricted = (tmp_path / name for name in ("frozen", "restricted"))
    models = {frozen: FROZEN, restricted: FROZEN.replace("[1,256]", "[3,-1]"), tmp_path / "ok": GOOD}
    codes = []
    for folder, text in models.items():
        folder.mkdir()
        path = save(folder, text)
        codes.append([run_command("check", "--fail-on", words, path).code for words in ("frozen", "frozen,restricted")])
    assert codes == [[3, 3], [0, 3], [0, 0]]


def test_check_command_fails_for_a_moved_first_dimension_only_with_fail_on(tmp_path: Path):
    path = save(tmp_path, MOVED)
    text = "y: [batch, 8] under [1, -1] is [1, 8*batch]; unknown to onnx"
    remark = "leaves: batch leaves dimension 0 at y: dimension 1 of its output is 8*batch"
    for flags, code in (((), 0), (("--fail-on", "leaves"), 3)):
        outcome = run_command("check", *flags, path)
        assert (outcome.code, outcome.text.splitlines()[0]) == (code, text)
        assert outcome.text.splitlines()[-2].startswith(remark)
    (line,) = run_command("check", "--fail-on", "leaves", "--format", "github", path).text.splitlines()
    assert line.startswith("::error ")


def test_check_command_finds_no_moved_dimension_without_probes(tmp_path: Path):
    outcome = run_command("check", "--fail-on", "leaves", "--no-probes", save(tmp_path, MOVED))
    assert (outcome.code, outcome.errors[-1]) == (2, "Error: --fail-on leaves needs the probes: remove --no-probes")


def test_check_command_rejects_an_unknown_verdict_of_fail_on(tmp_path: Path):
    outcome = run_command("check", "--fail-on", "frozen,open", save(tmp_path, FROZEN))
    assert (outcome.code, outcome.errors[-1]) == (
        2,
        f"Error: Invalid value for '--fail-on': 'open' is not one of {', '.join(VERDICTS)}",
    )


def test_check_command_names_the_nodes_that_contradict_each_other(tmp_path: Path):
    outcome = run_command("check", save(tmp_path, CONTRADICTING))
    assert (outcome.code, outcome.text.splitlines()[-2:]) == (
        3,
        [
            "This model accepts no input with elements: n = 2 (node y), n = 3 (node z)",
            "contradiction: 2 Reshape nodes (2 known), 157 sizes tried",
        ],
    )


def test_check_command_prints_requirements_of_elements_only_with_explain(tmp_path: Path):
    nodes = "n = Shape<start=0, end=1>(x) r = Constant<value_ints=[-1,2]>() s = Concat<axis=0>(n, r) y = Reshape(x, s)"
    path = save(tmp_path, f"{GOOD.replace('[N,rest]', '[]').partition('{')[0]} {{ {nodes} }}")
    line = "This model requires: N >= 1 (node y)"
    shown = [run_command("check", *options, path).text.splitlines() for options in ((), ("--explain",))]
    assert [line in lines for lines in shown] == [False, True]


def test_check_command_writes_requirements_as_json(tmp_path: Path):
    record = json.loads(run_command("check", "--json", save(tmp_path, CONTRADICTING)).output)
    assert record["verdict"] == "contradiction"
    assert [(one["condition"]["text"], one["nodes"], one["verdict"]) for one in record["requires"]] == [
        ("n = 2", [0], "frozen"),
        ("n = 3", [1], "frozen"),
    ]
    assert [(one["condition"]["text"], one["node"]) for one in record["contradiction"]] == [("n = 2", 0), ("n = 3", 1)]
    assert record["profiles"] == []


def test_check_command_names_the_node_that_rejects_a_profile(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    outcome = run_command("check", "--profile", "x=1x16x4x4,4x16x4x4", "--profile", "w=5x2", path)
    accepted, rejected, node = outcome.text.splitlines()[-4:-1]
    assert (outcome.code, accepted, rejected) == (
        3,
        "profile x=1x16x4x4 w=5x2: accepted",
        "profile x=4x16x4x4 w=5x2: rejected",
    )
    assert node.startswith("  y: [4, 16, 4, 4] under [1, 256] rejected: ")
    for shape in ("1x16x4x4", "1,16,4,4"):
        assert run_command("check", "--fail-on", "rejected", "--profile", f"x={shape}", path).code == 0


def test_check_command_writes_profiles_as_json(tmp_path: Path):
    options = ("--json", "--profile", "x=1x16x4x4,4x16x4x4")
    record = json.loads(run_command("check", *options, save(tmp_path, FROZEN)).output)
    accepted, rejected = record["profiles"]
    (node,) = accepted.pop("nodes")
    assert accepted == {"inputs": {"x": [1, 16, 4, 4]}, "result": "accepted", "failures": []}
    assert (node["data"]["dims"], node["shape"]["items"], node["output_shape"]["dims"]) == (
        [1, 16, 4, 4],
        [1, 256],
        [1, 256],
    )
    assert [one["rejection"]["reason"] for one in rejected["nodes"]] == ["VOLUME_MISMATCH"]


def test_check_command_names_what_a_profile_leaves_undecided(tmp_path: Path):
    outcome = run_command("check", "--fail-on", "restricted", "--profile", "w=5x2", save(tmp_path, FROZEN))
    assert outcome.code == 7
    assert outcome.text.splitlines()[-3:-1] == [
        "profile w=5x2: undecided",
        "  y: [?, 16, 4, 4] under [1, 256] undecided, because of the shape of the input x",
    ]


def test_check_command_rejects_a_wrong_profile_with_one_line(tmp_path: Path):
    outcome = run_command("check", "--profile", "x=1x3x4x4", save(tmp_path, FROZEN))
    message = "Error: --profile: dimension 1 of x is 3; the model declares 16"
    assert (outcome.code, outcome.text, outcome.errors) == (2, "", [message])


def test_check_command_rejects_profiles_with_different_numbers_of_shapes(tmp_path: Path):
    options = ("--profile", "x=1x16x4x4,2x16x4x4", "--profile", "w=1x2,2x2,3x2")
    outcome = run_command("check", *options, save(tmp_path, FROZEN))
    message = (
        "--profile has 2 shapes for x and 3 for another input: give each input the same number of shapes, or one shape"
    )
    assert (outcome.code, outcome.errors) == (2, [f"Error: {message}"])


def test_check_command_takes_several_files_and_folders(tmp_path: Path):
    for name, text in (("a", GOOD), ("b", FROZEN)):
        (tmp_path / name).mkdir()
        save(tmp_path / name, text)
    good, frozen = tmp_path / "a" / "model.onnx", tmp_path / "b" / "model.onnx"
    outcome = run_command("check", tmp_path, good)
    verdicts = [line.partition(": ")[0] for line in outcome.text.splitlines() if "sizes tried" in line]
    assert (outcome.code, verdicts) == (3, [str(good), str(frozen), str(good)])
    record = json.loads(run_command("check", "--json", tmp_path).output)
    assert [(one["path"], one["verdict"]) for one in record["models"]] == [(str(good), "ok"), (str(frozen), "frozen")]


def test_check_command_finds_an_ir_in_a_folder(tmp_path: Path):
    for suffix in (".xml", ".bin"):
        source = (Path(__file__).parents[2] / "examples" / "frozen_batch").with_suffix(suffix)
        (tmp_path / source.name).write_bytes(source.read_bytes() if source.exists() else b"")
    (tmp_path / "pom.xml").write_text("<project/>")
    record = json.loads(run_command("check", "--json", tmp_path).output)
    assert [Path(one["path"]).name for one in record["models"]] == ["frozen_batch.xml"]


def test_check_command_rejects_a_folder_without_models(tmp_path: Path):
    (tmp_path / "folder.onnx").mkdir()
    outcome = run_command("check", tmp_path)
    assert (outcome.code, outcome.errors[-1]) == (2, f"Error: {tmp_path} has no file *.onnx and no OpenVINO IR")


def test_check_command_exits_with_the_worst_code_of_its_files(tmp_path: Path):
    frozen, broken = save(tmp_path, FROZEN), tmp_path / "broken.onnx"
    broken.write_bytes(b"x")
    outcome = run_command("check", frozen, broken)
    assert (outcome.code, outcome.errors) == (2, [f"Error: {broken}: not an ONNX model: it is not a ModelProto"])
    assert "frozen: 1 Reshape node" in outcome.text


def test_check_command_exits_with_7_for_a_model_that_it_cannot_decide(tmp_path: Path):
    nodes = "u = x.y.Unknown(x) s = Constant<value_ints=[-1,3]>() y = Reshape(u, s)"
    path = save(tmp_path, f"{GOOD.replace('[N,rest]', '[]').partition('{')[0]} {{ {nodes} }}")
    outcome = run_command("check", path)
    assert outcome.code == 7
    assert outcome.text.splitlines()[-2:] == [
        "undecided: y, because of x.y Unknown u",
        "undecided: 1 Reshape node (1 narrowed), 5 sizes tried",
    ]


def test_check_command_tries_no_sizes_with_no_probes(tmp_path: Path):
    outcome = run_command("check", "--no-probes", save(tmp_path, GOOD))
    assert outcome.text.splitlines()[-1] == "ok: 1 Reshape node (1 known), no sizes tried"


def test_check_command_aligns_the_shapes_of_nodes(tmp_path: Path):
    text = GOOD.replace("[N,rest] y)", "[] y, float[] longer)").replace(
        "y = Reshape(x, s)", "y = Reshape(x, s) longer = Reshape(y, s)"
    )
    lines = run_command("check", save(tmp_path, text)).text.splitlines()
    assert [line.index("[") for line in lines[:2]] == [8, 8]


@pytest.mark.parametrize("form", ["github", "sarif", "junit"])
def test_file_that_is_not_a_model_is_in_every_form(form: str, tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")
    outcome = run_command("check", "--format", form, path)
    assert (outcome.code, "not an ONNX model" in outcome.text) == (2, True)


def test_source_line_of_a_node_is_in_annotations_of_github(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    model = onnx.load(path)
    stack = 'File "net.py", line 12, in forward\n    return x.view(1, 256)\n'
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=stack)
    onnx.save(model, path)
    assert run_command("check", "--format", "github", path).text.startswith("::error file=net.py,line=12,title=")
    assert "  at net.py:12: return x.view(1, 256)" in run_command("check", path).text.splitlines()


def test_check_command_writes_annotations_of_github(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    outcome = run_command("check", "--format", "github", path)
    text = (
        "This model requires: batch = 1 (declared dynamic; node y) (write [0, 256] instead of [1, 256] to keep batch "
    )
    assert (outcome.code, outcome.text) == (3, f"::error file={path},title=check%3A frozen::{text}dynamic)")


def test_check_command_writes_sarif(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    (run,) = json.loads(run_command("check", "--format", "sarif", path).output)["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("frozen", "error")
    assert result["message"]["text"].endswith("(write [0, 256] instead of [1, 256] to keep batch dynamic)")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path.as_uri()
    description = {"text": "A dynamic dimension, or a product of dynamic dimensions, has only one legal value."}
    assert run["tool"]["driver"]["rules"] == [{"id": "frozen", "shortDescription": description}]


TIED = """<ir_version: 8, opset_import: ["" : 17]> g (float[b,m,4] x, float[b,n,4] z) => (float[] y)
{ a = Add(x, z) s = Constant<value_ints=[0,-1]>() y = Reshape(a, s) }"""
UNKNOWN = (
    """<ir_version: 8, opset_import: ["" : 17]> g (float[n,6] x, int64[2] s) => (float[] y) { y = Reshape(x, s) }"""
)


def test_sarif_describes_each_kind_of_problem(tmp_path: Path):
    restricted = FROZEN.replace("[1,256]", "[3,-1]")
    for name, text in enumerate((REJECTED, CONTRADICTING, FROZEN, restricted, WRONG, MOVED, TIED, UNKNOWN)):
        onnx.save(parser.parse_model(text), tmp_path / f"{name}.onnx")
    (tmp_path / "none.onnx").write_bytes(b"none")
    profile = ("--profile", "x=2x8", tmp_path / "5.onnx")
    found: dict[str, str] = {}
    for arguments in ((tmp_path,), profile):
        (run,) = json.loads(run_command("check", "--format", "sarif", *arguments).output)["runs"]
        found |= {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert found.keys() == {*VERDICTS, "no-model", "undecided", "needs", "profile"}
    assert len(set(found.values())) == len(found)


def test_check_command_writes_junit(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    (suite,) = ET.fromstring(run_command("check", "--format", "junit", path).output)
    assert suite.attrib == {"name": str(path), "tests": "2", "failures": "1"}
    failed, passed = suite
    assert (failed.get("name"), failed[0].tag, failed[0].get("message")) == (
        "y",
        "failure",
        f"This model requires: batch = 1 (declared dynamic; node y) ({FROZEN_LINES.splitlines()[1].strip()})",
    )
    assert (passed.get("name"), len(passed)) == ("model", 0)


@pytest.mark.parametrize("form", ["text", "github", "junit"])
def test_name_with_a_line_break_begins_no_line(form: str, tmp_path: Path):
    path = save(tmp_path, FROZEN)
    model = onnx.load(path)
    model.graph.node[1].name = "bad\n::error::x"
    onnx.save(model, path)
    lines = run_command("check", "--format", form, "--profile", "x=4x16x4x4", path).text.splitlines()
    assert [line for line in lines if line.startswith("::error::x")] == []
    assert "bad\\n::error" in "".join(lines).replace("bad\\n%3A%3Aerror", "bad\\n::error")


def test_sarif_has_a_uri_for_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save(tmp_path, FROZEN).rename(tmp_path / "a b#1.onnx")
    monkeypatch.chdir(tmp_path)
    (run,) = json.loads(run_command("check", "--format", "sarif", "a b#1.onnx").output)["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b%231.onnx"
