"""Finds the line of the source that made a Reshape node, and proposes another target."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import onnx

from tensor_reshape.onnx.annotations import list_graphs
from tensor_reshape.onnx.dim_params import Key
from tensor_reshape.onnx.reports import Finding, ModelReport, Verdict
from tensor_reshape.onnx.requirements import ModelVerdict
from tensor_reshape.onnx.reshape_nodes import ReshapeNode, is_reshape
from tensor_reshape.rules.conditions import ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, format_dims

_STACK = "pkg.torch.onnx.stack_trace"  # the name of the metadata in which the exporter of torch stores a Python stack
_FRAME = re.compile(r'File "([^"]+)", line (\d+)[^\n]*\n\s*([^\n]*)')
_MAX_DIVISOR = 128  # the largest number of heads that is proposed
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages)[/\\]")


def add_origins(report: ModelReport, model: onnx.ModelProto) -> ModelReport:
    """Returns a report whose findings have their place in the source, and advice."""
    origins = _find_origins(model)
    findings = [
        replace(
            finding,
            origin=origins.get(finding.node.key, ""),
            advice=next(filter(None, _list_advice(place, finding, report)), ""),
        )
        for place, finding in enumerate(report.findings)
    ]
    return replace(report, findings=tuple(findings))


def advise_first(node: ReshapeNode) -> str:
    """Returns a target that keeps the first dim of the data where it is, or an empty text."""
    name = _find_name(node.data[0]) if node.data else ""
    if not name or not node.special_zero or not node.target or len(node.target) == 1:
        return ""
    first, *rest = node.target
    if first == -1:
        rest[-1] = -1
    elif -1 not in rest:
        return ""
    return f"write {format_dims([0, *rest])} instead of {format_dims(node.target)} to keep {name} in dim 0"


def _list_advice(place: int, finding: Finding, report: ModelReport) -> Iterator[str]:
    """Yields what to write instead of the target of a node, or empty texts."""
    node = finding.node
    for requirement in report.requirements:
        condition = requirement.condition
        left, right = condition.left, condition.right
        if place not in requirement.nodes or right is None:
            continue
        if requirement.verdict is ModelVerdict.FROZEN and left.symbol is not None:
            yield _advise_frozen(node, left.symbol.name, right.coefficient)
        elif condition.kind is ConditionKind.DIVIDES and node.data and _find_name(node.data[0]) in condition.symbols:
            yield advise_first(node)
    if finding.verdict is Verdict.REJECTED or place in {demand.node for demand in report.contradiction}:
        yield _advise_split(node)


def _find_origins(model: onnx.ModelProto) -> Mapping[Key, str]:
    """Returns the line of the source of each Reshape node whose exporter has stored a stack."""
    return {
        (path, node.output[0]): text
        for path, graph in list_graphs(model.graph)
        for node in graph.node
        if is_reshape(node)
        for entry in node.metadata_props
        if entry.key == _STACK and (text := read_stack(entry.value))
    }


def read_stack(stack: str) -> str:
    """Returns the innermost line of a Python stack outside of libraries, such as `model.py:12: x.view(-1)`."""
    frames = [frame for frame in _FRAME.findall(stack) if not _LIBRARY.search(frame[0])] or _FRAME.findall(stack)
    if not frames:
        return ""
    file, line, code = frames[-1]
    return f"{file}:{line}: {code.strip()}"


def _advise_frozen(node: ReshapeNode, name: str, value: int) -> str:
    """Returns a target that keeps a frozen dim dynamic, or an empty text."""
    if node.target is None or node.data is None:
        return ""
    for place, item in enumerate(node.target):
        if item != value:
            continue
        has_copy = node.special_zero and place < len(node.data) and _find_name(node.data[place]) == name
        if has_copy or -1 not in node.target:
            better = [*node.target]
            better[place] = 0 if has_copy else -1
            if better == [*node.target]:
                continue
            return f"write {format_dims(better)} instead of {format_dims(node.target)} to keep {name} dynamic"
    return ""


def _advise_split(node: ReshapeNode) -> str:
    """Returns numbers that split the last dim of the data into two, for example into heads, or an empty text."""
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


def _find_name(dim: AnyDim) -> str:
    """Returns the name of a dim that is only a name, and otherwise an empty text."""
    symbol = dim.expression.symbol if isinstance(dim, Dim) and dim.expression is not None else None
    return "" if symbol is None else symbol.name
