"""Combines what the rules say about a model with what its probes show.

Invariants:

- A condition that a probe refutes is not reported. A condition with a formula such as `floor(h/2)` is only reported if
  a node rejects sizes that violate it.
- If a Reshape node rejects sizes, a condition that the sizes violate explains it. Otherwise it is a finding of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tensor_reshape.onnx.advice import advise_first
from tensor_reshape.onnx.dim_params import DimParams, Key
from tensor_reshape.onnx.interpreter import Dims
from tensor_reshape.onnx.probes import Probes, Rejection, Sizes, evaluate_dim, format_sizes, is_refuted
from tensor_reshape.onnx.reports import FailedProbe, Finding, ModelReport, Verdict
from tensor_reshape.onnx.requirements import Requirement
from tensor_reshape.rules.dims import AnyDim, Dim, format_dim
from tensor_reshape.rules.errors import ReshapeError

Declared: TypeAlias = Mapping[Key, Sequence[AnyDim]]

_MAX_CLAIMS = 20  # wrong declared shapes that are reported


def confirm(report: ModelReport, probes: Probes, declared: Declared, params: DimParams) -> ModelReport:
    """Returns the report of a model with the results of the probes.

    Args:
        report: the report of the rules.
        probes: the probes.
        declared: the shapes that the model declares for intermediate tensors and outputs.
        params: the names of its dims.
    """
    keys = [finding.node.key for finding in report.findings]
    kept = tuple(
        one
        for one in report.requirements
        if not is_refuted(one, keys, probes)
        and (params.formulas.isdisjoint(one.condition.symbols) or _is_seen(one, probes))
    )
    findings = [*report.findings]
    if probes.is_static and probes.best is not None:
        for place, key in enumerate(keys):
            decision = probes.best.decisions.get(key)
            if decision is not None and decision.error is not None:
                findings[place] = replace(findings[place], answer=decision.error, verdict=Verdict.REJECTED)
    failed = {} if probes.base is None else _explain(probes, kept, keys, findings)
    return replace(
        report,
        findings=tuple(findings),
        requirements=kept,
        contradiction=() if probes.base is not None else report.contradiction,
        failed_probes=tuple(failed.values()),
        remarks=(*_list_needs(probes), *_list_moved_names(findings, probes)),
        claims=tuple(_list_claims(declared, keys, probes).values())[:_MAX_CLAIMS],
        tried=probes.tried,
        base=probes.base,
        undecided=tuple(_list_undecided(findings, keys, probes, is_contradicting=bool(report.contradiction))),
    )


def is_contradicted(report: ModelReport, probes: Probes) -> bool:
    """Whether sizes that every node accepts contradict an answer of the rules, so that a formula is wrong."""
    for sizes, run in probes.accepted:
        for finding in report.findings:
            decision = run.decisions.get(finding.node.key)
            if decision is None or decision.error is not None or decision.cause:
                continue
            answer = finding.answer
            if isinstance(answer, ReshapeError):
                return True
            pairs = ((finding.node.data, decision.data), (answer.dims, decision.output))
            if any(
                stated is not None and own is not None and _find_difference(stated, own, sizes) for stated, own in pairs
            ):
                return True
    return False


def _is_seen(requirement: Requirement, probes: Probes) -> bool:
    """Whether a node rejects sizes that violate a requirement, or no sizes are known that all nodes accept."""
    return probes.base is None or any(_is_violated(requirement, rejection) for rejection in probes.rejections)


def _explain(
    probes: Probes, kept: Sequence[Requirement], keys: Sequence[Key], findings: Sequence[Finding]
) -> dict[Key, FailedProbe]:
    """Returns the rejections that no condition explains, one for each node."""
    failed: dict[Key, FailedProbe] = {}
    for rejection in probes.rejections:
        if rejection.key in failed or rejection.key not in keys:
            continue
        if not any(_is_violated(one, rejection) for one in kept):
            place = keys.index(rejection.key)
            failed[rejection.key] = FailedProbe(
                node=place, label=findings[place].node.label, sizes=rejection.sizes, decision=rejection.decision
            )
    return failed


def _is_violated(requirement: Requirement, rejection: Rejection) -> bool:
    condition = requirement.condition
    return not condition.symbols <= rejection.sizes.keys() or not condition.holds(rejection.sizes)


def _list_needs(probes: Probes) -> Iterator[str]:
    for need in probes.needs:
        yield f"needs: {need}"
    for tie in probes.ties:
        yield f"needs: {', '.join(sorted(tie))} change together"


def _list_moved_names(findings: Sequence[Finding], probes: Probes) -> Iterator[str]:
    """Yields a remark for each node that moves the name of the first dim of the inputs to another dim."""
    for finding in findings:
        data, answer = finding.node.data, finding.answer
        if isinstance(answer, ReshapeError) or not data or not answer.dims:
            continue
        moved = sorted(_list_factors(data[0]) & probes.leading - _list_factors(answer.dims[0]))
        places = [place for place, dim in enumerate(answer.dims) if place and set(moved) & _list_factors(dim)]
        if moved and places:
            name = format_dim(answer.dims[places[0]])
            advice = advise_first(finding.node)
            text = f"leaves: {moved[0]} leaves dim 0 at {finding.node.label}: dim {places[0]} of its output is {name}"
            yield f"{text}; {advice}" if advice else text


def _list_factors(dim: AnyDim) -> set[str]:
    return {one.name for one in dim.expression.factors} if isinstance(dim, Dim) and dim.expression else set()


def _list_claims(declared: Declared, keys: Sequence[Key], probes: Probes) -> dict[Key, str]:
    """Returns a sentence for each declared shape that is wrong for some sizes, without those of Reshape nodes."""
    claims: dict[Key, str] = {}
    for sizes, run in probes.accepted:
        for key, dims in declared.items():
            tensor = run.tensors.get(key)
            if tensor is None or tensor.dims is None or key in claims or key in keys:
                continue
            text = _find_difference(dims, tensor.dims, sizes)
            if text:
                claims[key] = (
                    f"the model declares {text.format(name=key[1])}{f' for {format_sizes(sizes)}' * bool(sizes)}"
                )
    return claims


def _find_difference(declared: Sequence[AnyDim], dims: Dims, sizes: Sizes) -> str:
    if len(declared) != len(dims):
        return f"{{name}} with the rank {len(declared)}; its node gives the rank {len(dims)}"
    for place, (stated, size) in enumerate(zip(declared, dims, strict=True)):
        value = evaluate_dim(stated, sizes)
        if size is not None and value not in {None, size}:
            text = str(value) if isinstance(stated, int) else f"{format_dim(stated)} = {value}"
            return f"dim {place} of {{name}} as {text}; its node gives {size}"
    return ""


def _list_undecided(
    findings: Sequence[Finding], keys: Sequence[Key], probes: Probes, *, is_contradicting: bool
) -> Iterator[str]:
    """Yields why the model is undecided."""
    if any(finding.verdict is Verdict.REJECTED for finding in findings):
        return
    if probes.base is None and not is_contradicting:
        yield probes.reason
    causes: dict[str, list[str]] = {}
    for finding, key in zip(findings, keys, strict=True):
        decision = None if probes.best is None else probes.best.decisions.get(key)
        if decision is not None and decision.cause and not _is_decided(finding, probes):
            causes.setdefault(decision.cause, []).append(finding.node.label)
    for cause, labels in causes.items():
        yield f"{', '.join(labels)}, because of {cause}"


def _is_decided(finding: Finding, probes: Probes) -> bool:
    """Whether the conditions of a node say for all sizes whether it accepts them."""
    answer = finding.answer
    if isinstance(answer, ReshapeError):
        return True
    return answer.conditions_complete and all(one.symbols <= probes.names for one in answer.conditions)
