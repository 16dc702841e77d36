"""The forms of the output of `tensor-reshape check`."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import onnx
import pytest
from onnx import parser

from command_line import run_command

GOOD = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4] x) => (float[N,rest] y)
{ s = Constant<value_ints=[0,-1]>() y = Reshape(x, s) }"""
FROZEN = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch,16,4,4] x, float[k,2] w) => (float[] y)
{ s = Constant<value_ints=[1,256]>() y = Reshape(x, s) }"""


def save(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


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
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path.as_uri()
    assert run["tool"]["driver"]["rules"] == [{"id": "frozen"}]


def test_check_command_writes_junit(tmp_path: Path):
    path = save(tmp_path, FROZEN)
    (suite,) = ET.fromstring(run_command("check", "--format", "junit", path).output)
    assert suite.attrib == {"name": str(path), "tests": "2", "failures": "1"}
    failed, passed = suite
    assert (failed.get("name"), failed[0].tag, failed[0].get("message")) == (
        "y",
        "failure",
        "This model requires: batch = 1 (declared dynamic; node y)",
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
