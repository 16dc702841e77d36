"""Models that torch exported with both exporters, against what onnxruntime did with several sizes.

`scripts/verify exports` writes the models and the runs.
"""

import json
from functools import lru_cache
from typing import Any

import onnx
import pytest
from onnx import parser

from documents import ROOT
from tensor_reshape.onnx import ModelVerdict, check_model, check_profile

FOLDER = ROOT / "tests/onnx/exports"
RUNS: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "runs.json").read_text())
# A Reshape node of these exports rejects some sizes.
RESTRICTED = {"frozen.dynamo", "frozen.script", "heads.dynamo", "heads.script", "unshuffle.dynamo", "unshuffle.script"}
RESTRICTED |= {"multihead.script"}
FROZEN = {"second_batch.script"}


@lru_cache
def load(name: str) -> onnx.ModelProto:
    return parser.parse_model((FOLDER / f"{name}.onnxtxt").read_text())


@pytest.mark.parametrize(
    ("name", "run"),
    [pytest.param(name, run, id=f"{name}-{place}") for name in RUNS for place, run in enumerate(RUNS[name])],
)
def test_profile_is_decided_as_onnxruntime_decides(name: str, run: dict[str, Any]):
    report = check_profile(load(name), run["inputs"])
    rejecting = [report.labels[key] for key, decision in report.decisions.items() if decision.error is not None]
    if run["accepts"]:
        assert (report.result, report.failures) == ("accepted", ())
    elif run["operator"] == "Reshape":
        assert (report.result, rejecting[0]) == ("rejected", run["node"])
    else:
        assert (rejecting, any(run["node"] in failure for failure in report.failures)) == ([], True)


@pytest.mark.parametrize("name", RUNS)
def test_verdict_about_an_export_is_backed_by_its_runs(name: str):
    report = check_model(load(name))
    expected = (
        ModelVerdict.RESTRICTED if name in RESTRICTED else ModelVerdict.FROZEN if name in FROZEN else ModelVerdict.OK
    )
    assert (report.verdict, report.undecided) == (expected, ())


def test_exports_that_reject_sizes_are_not_ok():
    rejecting = {name for name, runs in RUNS.items() for run in runs if run.get("operator") == "Reshape"}
    assert rejecting == RESTRICTED | FROZEN
