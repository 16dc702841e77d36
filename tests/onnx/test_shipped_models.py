"""The models in the `onnx` package: the number of checked nodes and their verdicts.

The numbers are those of RELEASE. For other releases, only general facts are tested: nothing disagrees,
nothing is rejected, and every output that onnx's own evaluator computes lies in the answer.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase as NodeCase
from onnx.reference import ReferenceEvaluator

from tensor_reshape.onnx import Finding, check_model
from tensor_reshape.rules.dims import find_bounds
from tensor_reshape.rules.errors import ReshapeError

RELEASE = "1.23"
FILES = sorted((Path(onnx.__file__).parent / "backend/test/data").rglob("*.onnx"))


def count_verdicts(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.verdict.value for finding in findings)


def test_onnx_test_models_agree_with_onnx_shape_inference():
    findings = [finding for path in FILES for finding in check_model(path).findings]
    counts = count_verdicts(findings)
    assert {"disagrees", "rejected"}.isdisjoint(counts)
    if version("onnx").startswith(RELEASE):
        assert (len(FILES), counts) == (149, {"known": 43})


@pytest.mark.measured  # onnx needs five seconds to make its cases; the other files test the checks
def test_onnx_operator_test_cases_match_the_reference_evaluator():
    """Checks one model for each case of an operator and of a composed operator. The cases have inputs."""
    counts, outside, count = Counter[str](), list[str](), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some cases overflow on purpose
        cases = [(case, case.model) for case in collect_testcases(None) if case.model is not None]
        for case, model in cases:
            findings = check_model(model).findings
            counts += count_verdicts(findings)
            own = [finding for finding in findings if not finding.node.graph]
            for computed in compute_all(case, model) if own else ():
                count += len(own)
                outside += [
                    str(finding) for finding in own if not holds(finding, np.shape(computed[finding.node.output]))
                ]
    assert {"disagrees", "rejected"}.isdisjoint(counts)
    assert (count > 0, outside) == (True, [])
    if version("onnx").startswith(RELEASE):
        # Open targets are inputs, or depend on values of inputs or on values that onnx's inference does not propagate.
        assert (len(cases), counts) == (1884, {"known": 466, "closed": 94, "open": 75, "narrowed": 3})
        assert count == 627


def compute_all(case: NodeCase, model: onnx.ModelProto) -> Iterator[dict[str, Any]]:
    """Yields the tensors that the reference evaluator computes for each input of a case, by name."""
    names = [given.name for given in model.graph.input]
    evaluator = ReferenceEvaluator(model)
    for inputs, _ in case.data_sets or []:
        computed: Any = evaluator.run(None, dict(zip(names, inputs, strict=False)), intermediate=True)
        yield computed


def holds(finding: Finding, shape: tuple[int, ...]) -> bool:
    answer = finding.answer
    if isinstance(answer, ReshapeError) or answer.dims is None:
        return not isinstance(answer, ReshapeError)
    bounds = map(find_bounds, answer.dims)
    return len(shape) == len(answer) and all(bound.holds(size) for bound, size in zip(bounds, shape, strict=True))
