"""Completes the report about a model with the results of tried sizes (probes), lines of source code, and advice.

Invariants:

- If a node accepts sizes that violate a condition, this probe refutes the condition, so the condition is not reported.
  A condition with a formula such as `floor(h/2)` is only reported if a node rejects sizes that violate it.
- If a Reshape node rejects sizes that violate no condition, the report lists this as a failed probe.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import onnx

from tensor_reshape.client.queries import ShapeQuery, infer_locally
from tensor_reshape.onnx.annotations import list_graphs
from tensor_reshape.onnx.dim_params import DimParams, DimsByKey, Key
from tensor_reshape.onnx.interpreter import Dims
from tensor_reshape.onnx.models import ModelSource
from tensor_reshape.onnx.probes import Probes, RejectedSizes, Sizes, evaluate_dim, format_sizes, is_refuted
from tensor_reshape.onnx.reports import FailedProbe, Finding, ModelReport, Verdict
from tensor_reshape.onnx.requirements import ModelVerdict, Requirement, judge
from tensor_reshape.onnx.reshape_nodes import ReshapeNode, is_reshape
from tensor_reshape.rules.conditions import ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, find_name, format_dim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import OperationName

_MAX_CLAIMS = 20  # maximum number of wrong declared shapes in a report

_STACK = "pkg.torch.onnx.stack_trace"  # the metadata key under which the exporter of torch stores a Python stack
_FRAME = re.compile(r'File "([^"]+)", line (\d+)[^\n]*\n\s*([^\n]*)')
_MAX_DIVISOR = 128  # the largest number of attention heads that advice proposes
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages)[/\\]")


def confirm(report: ModelReport, probes: Probes, declared: DimsByKey, params: DimParams) -> ModelReport:
    """Returns the report about a model, completed with the results of the probes."""
    keys = [finding.node.key for finding in report.findings]
    kept = tuple(
        one
        for one in report.requirements
        if not is_refuted(one, keys, probes)
        and (
            params.formulas.isdisjoint(one.condition.symbols)
            or probes.base is None
            or any(_is_violated(one, rejection) for rejection in probes.rejections)
        )
    )
    findings = [*report.findings]
    if probes.is_static and probes.best is not None:
        for place, key in enumerate(keys):
            decision = probes.best.decisions.get(key)
            if decision is not None and decision.error is not None:
                findings[place] = replace(findings[place], answer=decision.error, verdict=Verdict.REJECTED)
    failed = _explain(probes, kept, keys, findings)
    return replace(
        report,
        findings=tuple(findings),
        requirements=kept,
        contradiction=() if probes.base is not None else report.contradiction,
        failed_probes=tuple(failed.values()),
        remarks=(
            *(f"needs: {need}" for need in probes.needs.values()),
            *(f"needs: {', '.join(sorted(tie))} change together" for tie in probes.ties),
            *_list_moved_names(findings, probes),
        ),
        claims=tuple(_list_claims(declared, keys, probes).values())[:_MAX_CLAIMS],
        tried=probes.tried,
        base=probes.base,
        undecided=tuple(_list_undecided(findings, keys, probes, is_contradicting=bool(report.contradiction))),
    )


def is_contradicted(report: ModelReport, probes: Probes) -> bool:
    """Whether the result for sizes that every node accepts contradicts an answer. If so, a formula is wrong."""
    for sizes, run in probes.accepted:
        for finding in report.findings:
            decision = run.decisions.get(finding.node.key)
            if decision is None or decision.cause:
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


def _explain(
    probes: Probes, kept: Sequence[Requirement], keys: Sequence[Key], findings: Sequence[Finding]
) -> dict[Key, FailedProbe]:
    """Returns the rejections that no condition explains, at most one for each node."""
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


def _is_violated(requirement: Requirement, rejection: RejectedSizes) -> bool:
    condition = requirement.condition
    return condition.symbols <= rejection.sizes.keys() and not condition.holds(rejection.sizes)


def _list_moved_names(findings: Sequence[Finding], probes: Probes) -> Iterator[str]:
    """Yields a remark for each node that moves the first dim of the inputs (usually the batch) to another dimension."""
    for finding in findings:
        data, answer = finding.node.data, finding.answer
        if isinstance(answer, ReshapeError) or not data or not answer.dims:
            continue
        moved = sorted(_list_factors(data[0]) & probes.leading - _list_factors(answer.dims[0]))
        places = [place for place, dim in enumerate(answer.dims) if place and set(moved) & _list_factors(dim)]
        if moved and places:
            label, name = finding.node.label, format_dim(answer.dims[places[0]])
            advice = advise_first(finding.node)
            text = f"leaves: {moved[0]} leaves dimension 0 at {label}: dimension {places[0]} of its output is {name}"
            yield f"{text}; {advice}" if advice else text


def _list_factors(dim: AnyDim) -> set[str]:
    return {one.name for one in dim.expression.factors} if isinstance(dim, Dim) and dim.expression else set()


def _list_claims(declared: DimsByKey, keys: Sequence[Key], probes: Probes) -> dict[Key, str]:
    """Returns a sentence for each declared shape that is wrong for some sizes.

    Outputs of Reshape nodes are left out.
    """
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
            return f"dimension {place} of {{name}} as {text}; its node gives {size}"
    return ""


def _list_undecided(
    findings: Sequence[Finding], keys: Sequence[Key], probes: Probes, *, is_contradicting: bool
) -> Iterator[str]:
    """Yields the reasons why the verdict about the model is undecided."""
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
    """Whether the conditions of a node are enough to decide which sizes the node accepts."""
    answer = finding.answer
    if isinstance(answer, ReshapeError):
        return True
    return answer.conditions_complete and all(one.symbols <= probes.names for one in answer.conditions)


def add_origins(report: ModelReport, source: ModelSource) -> ModelReport:
    """Returns the report with a line of source code and advice for each finding, as far as they are known."""
    origins = _find_origins(source.model)
    findings = [
        replace(
            finding,
            origin=origins.get(finding.node.key, ""),
            advice=next(filter(None, _list_advice(place, finding, report, source.operation)), ""),
        )
        for place, finding in enumerate(report.findings)
    ]
    return replace(report, findings=tuple(findings))


def advise_first(node: ReshapeNode) -> str:
    """Returns the advice to write a requested shape that keeps the first input dim first, or an empty text."""
    name = find_name(node.data[0]) if node.data else None
    if name is None or not node.special_zero or not node.target or len(node.target) == 1:
        return ""
    first, *rest = node.target
    if first == -1:
        rest[-1] = -1
    elif -1 not in rest:
        return ""
    return f"write {format_dims([0, *rest])} instead of {format_dims(node.target)} to keep {name} in dimension 0"


def _list_advice(place: int, finding: Finding, report: ModelReport, operation: OperationName) -> Iterator[str]:
    """Yields advice on what to write instead of the requested shape of a node. Some of the texts may be empty."""
    node = finding.node
    for requirement in report.requirements:
        condition = requirement.condition
        left, right = condition.left, condition.right
        if place not in requirement.nodes or right is None:
            continue
        if requirement.verdict is ModelVerdict.FROZEN:
            names = list(dict.fromkeys(one.name for one in left.factors))
            yield _advise_frozen(node, names, right.coefficient, operation)
        elif condition.kind is ConditionKind.DIVIDES and node.data and find_name(node.data[0]) in condition.symbols:
            yield advise_first(node)
    if finding.verdict is Verdict.REJECTED or place in {demand.node for demand in report.contradiction}:
        yield _advise_split(node)


def _find_origins(model: onnx.ModelProto) -> Mapping[Key, str]:
    """Returns the line of source code for each Reshape node for which the exporter has stored a Python stack."""
    return {
        (path, node.output[0]): text
        for path, graph in list_graphs(model.graph)
        for node in graph.node
        if is_reshape(node)
        for entry in node.metadata_props
        if entry.key == _STACK and (text := read_stack(entry.value))
    }


def read_stack(stack: str) -> str:
    """Returns the innermost line of a Python stack that is not in a library, such as `model.py:12: x.view(-1)`."""
    frames = [frame for frame in _FRAME.findall(stack) if not _LIBRARY.search(frame[0])] or _FRAME.findall(stack)
    if not frames:
        return ""
    file, line, code = frames[-1]
    return f"{file}:{line}: {code.strip()}"


def _advise_frozen(node: ReshapeNode, names: Sequence[str], value: int, operation: OperationName) -> str:
    """Returns the advice to write a requested shape that keeps the named dims dynamic, or an empty text."""
    if node.target is None or node.data is None:
        return ""
    for better in _list_better_targets(node.target, node.data, names, value, has_copies=node.special_zero):
        if better != list(node.target) and _is_dynamic(node, better, names, operation):
            kept = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
            return f"write {format_dims(better)} instead of {format_dims(node.target)} to keep {kept} dynamic"
    return ""


def _list_better_targets(
    target: Sequence[AnyDim], data: Sequence[AnyDim], names: Sequence[str], value: int, *, has_copies: bool
) -> Iterator[list[AnyDim]]:
    """Yields requested shapes that may keep the named dims dynamic, by copying them or by inferring an item with -1."""
    numbers = [place for place, item in enumerate(target) if isinstance(item, int) and item > 0]
    if has_copies:
        copied = {place for place in numbers if place < len(data) and find_name(data[place]) in names}
        yield [0 if place in copied else item for place, item in enumerate(target)]
    if -1 not in target:
        for place in numbers:
            if target[place] == value:
                yield [*target[:place], -1, *target[place + 1 :]]


def _is_dynamic(node: ReshapeNode, target: Sequence[AnyDim], names: Sequence[str], operation: OperationName) -> bool:
    """Whether a node with another requested shape accepts all sizes of the named dims, except perhaps the size 0."""
    query = ShapeQuery(data_shape=node.data, shape=target, special_zero=node.special_zero, operation=operation)
    (answer,) = infer_locally([query])
    return not isinstance(answer, ReshapeError) and all(
        judge(one) is ModelVerdict.OK or one.symbols.isdisjoint(names) for one in answer.conditions
    )


def _advise_split(node: ReshapeNode) -> str:
    """Returns the advice to write numbers into which the last input dim can be split, or an empty text."""
    data, target = node.data or (), node.target or ()
    size, kept = data[-1] if data else None, len(data) - 1
    if len(target) != len(data) + 1 or not isinstance(size, int) or size < 1:
        return ""
    if not all(
        item == dim or (item == 0 and node.special_zero) for item, dim in zip(target, data[:kept], strict=False)
    ):
        return ""
    for item, other in (target[kept:], target[kept:][::-1]):
        if isinstance(item, int) and item > 0 and size % item == 0 and isinstance(other, int) and other != -1:
            return f"write {size // item} instead of {other}, because {item} * {size // item} = {size}"
    divisors = [str(number) for number in range(1, min(size, _MAX_DIVISOR) + 1) if size % number == 0]
    wrong = next((str(item) for item in target[kept:] if item != -1), "")
    return f"write a divisor of {size} instead of {wrong}: {', '.join(divisors)}" if wrong else ""
