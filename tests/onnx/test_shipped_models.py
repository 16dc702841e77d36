"""The models in the `onnx` package, and the inputs that onnx ships with them.

The numbers are those of RELEASE. For other releases, only general facts are tested: nothing disagrees, nothing is
rejected, and every output that onnx's own evaluator computes lies in the answer.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase as NodeCase
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

from tensor_reshape.onnx import Finding, ProfileReport, check_model, check_profile
from tensor_reshape.rules.dims import find_bounds
from tensor_reshape.rules.errors import ReshapeError

RELEASE = "1.23"
FILES = sorted((Path(onnx.__file__).parent / "backend/test/data").rglob("*.onnx"))
FOLDERS = [
    Path(case.model_dir)
    for kind in ("simple", "pytorch-converted", "pytorch-operator")
    for case in load_model_tests(kind=kind)
    if case.model_dir is not None
]
measured = pytest.mark.measured  # onnx needs five seconds to make its cases; the other files test the checks


@lru_cache
def list_cases() -> list[tuple[NodeCase, onnx.ModelProto]]:
    """Returns a model for each case of an operator and of a composed operator. The cases have inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some cases overflow on purpose
        return [(case, case.model) for case in collect_testcases(None) if case.model is not None]


def count_verdicts(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.verdict.value for finding in findings)


def test_onnx_test_models_agree_with_onnx_shape_inference():
    findings = [finding for path in FILES for finding in check_model(path).findings]
    counts = count_verdicts(findings)
    assert {"disagrees", "rejected"}.isdisjoint(counts)
    if version("onnx").startswith(RELEASE):
        assert (len(FILES), counts) == (149, {"known": 43})


@measured
def test_onnx_operator_test_cases_match_the_reference_evaluator():
    counts, outside, count = Counter[str](), list[str](), 0
    for case, model in list_cases():
        findings = check_model(model).findings
        counts += count_verdicts(findings)
        own = [finding for finding in findings if not finding.node.graph]
        for computed in compute_all(case, model) if own else ():
            count += len(own)
            outside += [str(finding) for finding in own if not holds(finding, np.shape(computed[finding.node.output]))]
    assert {"disagrees", "rejected"}.isdisjoint(counts)
    assert (count > 0, outside) == (True, [])
    if version("onnx").startswith(RELEASE):
        # Open targets are inputs, or depend on values of inputs or on values that onnx's inference does not propagate.
        assert (len(list_cases()), counts) == (1884, {"known": 466, "closed": 94, "open": 75, "narrowed": 3})
        assert count == 627


def compute_all(case: NodeCase, model: onnx.ModelProto) -> Iterator[dict[str, Any]]:
    """Yields the tensors that the reference evaluator computes for each input of a case, by name."""
    names = [given.name for given in model.graph.input]
    evaluator = ReferenceEvaluator(model)
    for inputs, _ in case.data_sets or []:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            computed: Any = evaluator.run(None, dict(zip(names, inputs, strict=False)), intermediate=True)
        yield computed


def holds(finding: Finding, shape: tuple[int, ...]) -> bool:
    answer = finding.answer
    if isinstance(answer, ReshapeError) or answer.dims is None:
        return not isinstance(answer, ReshapeError)
    bounds = map(find_bounds, answer.dims)
    return len(shape) == len(answer) and all(bound.holds(size) for bound, size in zip(bounds, shape, strict=True))


def profile_folder(folder: Path) -> ProfileReport:
    """Returns the profile of a model file with the shapes of its first inputs."""
    model = onnx.load(folder / "model.onnx")
    files = sorted(folder.glob("test_data_set_0/input_*.pb"), key=lambda file: int(file.stem.removeprefix("input_")))
    shapes = {
        given.name: tuple(onnx.TensorProto.FromString(file.read_bytes()).dims)
        for given, file in zip(model.graph.input, files, strict=False)
        if given.type.HasField("tensor_type")
    }
    return check_profile(model, shapes)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_inputs_of_a_model_file_are_accepted(folder: Path):
    report = profile_folder(folder)
    assert (report.result, report.problems) == ("accepted", ())


def read_array(value: object) -> np.ndarray[Any, Any]:
    """Returns an input of a case, which is an array or, for types that numpy does not have, a message."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def profile_case(case: NodeCase, model: onnx.ModelProto, *, with_values: bool = False) -> Iterator[ProfileReport]:
    """Yields the profiles of a case, with the shapes of its inputs and optionally also the values of its lists."""
    for inputs, _ in case.data_sets or ():
        tensors = {
            given.name: read_array(value)
            for given, value in zip(model.graph.input, inputs, strict=False)
            if given.type.HasField("tensor_type")
        }
        lists = {name: value for name, value in tensors.items() if with_values and value.dtype == np.int64}
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        copy.graph.ClearField("input")
        copy.graph.input.extend(given for given in model.graph.input if given.name not in lists)
        copy.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in lists.items())
        yield check_profile(copy, {name: value.shape for name, value in tensors.items() if name not in lists})


@measured
def test_shipped_shapes_are_accepted_or_the_target_is_an_input():
    reports = [report for case in list_cases() for report in profile_case(*case)]
    decisions = [decision for report in reports for decision in report.decisions.values()]
    causes = Counter(decision.cause for decision in decisions if decision.error is None)
    assert [report.problems for report in reports if report.result == "rejected" or report.failures] == []
    assert set(causes) == {"", "the values of the input shape", "the values of the input size"}
    if version("onnx").startswith(RELEASE):
        assert (causes[""], causes.total() - causes[""]) == (617, 15)


@measured
def test_shipped_values_are_accepted():
    reports = [report for case in list_cases() for report in profile_case(*case, with_values=True)]
    assert [report.problems for report in reports if report.problems] == []
