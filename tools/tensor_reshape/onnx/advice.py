"""Says where a Reshape node comes from, and what to write instead."""

import re
from collections.abc import Mapping
from dataclasses import replace

import onnx

from tensor_reshape.onnx.annotations import list_graphs
from tensor_reshape.onnx.dim_params import Key
from tensor_reshape.onnx.reports import Finding, ModelReport
from tensor_reshape.onnx.requirements import ModelVerdict
from tensor_reshape.onnx.reshape_nodes import is_reshape
from tensor_reshape.rules.conditions import ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, format_dims

_STACK = "pkg.torch.onnx.stack_trace"  # the name of the metadata in which the exporter of torch stores a Python stack
_FRAME = re.compile(r'File "([^"]+)", line (\d+)[^\n]*\n\s*([^\n]*)')
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages)[/\\]")


def add_origins(report: ModelReport, model: onnx.ModelProto) -> ModelReport:
    """Returns a report whose findings have their place in the source, and advice."""
    origins = _find_origins(model)
    frozen = {
        (node, requirement.condition.left.symbol.name, requirement.condition.right.coefficient)
        for requirement in report.requirements
        if requirement.verdict is ModelVerdict.FROZEN
        and requirement.condition.kind is ConditionKind.EQUAL
        and requirement.condition.left.symbol is not None
        and requirement.condition.right is not None
        for node in requirement.nodes
    }
    findings = [
        replace(
            finding,
            origin=origins.get((finding.node.graph, finding.node.output), ""),
            advice=next(
                (
                    text
                    for node, name, value in sorted(frozen)
                    if node == place
                    if (text := _advise(finding, name, value))
                ),
                "",
            ),
        )
        for place, finding in enumerate(report.findings)
    ]
    return replace(report, findings=tuple(findings))


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


def _advise(finding: Finding, name: str, value: int) -> str:
    """Returns a target that keeps a frozen dim dynamic, or an empty text."""
    node = finding.node
    if node.target is None or node.data is None:
        return ""
    for place, item in enumerate(node.target):
        if item != value:
            continue
        has_copy = node.special_zero and place < len(node.data) and _is_name(node.data[place], name)
        if has_copy or -1 not in node.target:
            better = [*node.target]
            better[place] = 0 if has_copy else -1
            return f"write {format_dims(better)} instead of {format_dims(node.target)} to keep {name} dynamic"
    return ""


def _is_name(dim: AnyDim, name: str) -> bool:
    symbol = dim.expression.symbol if isinstance(dim, Dim) and dim.expression is not None else None
    return symbol is not None and symbol.name == name
