"""Checks an ONNX model. Infers the output shapes of all its Reshape nodes in a batch, and compares them with the model.

Invariants:

- The query for a node uses the input shape that onnx infers. If onnx leaves a dim unknown and the input has the same
  shape as the output of another Reshape node, the query uses the answer for that node. After each batch, the answers
  are written into the model and onnx infers the shapes again. This is repeated until no new dim is found, or for ten
  seconds. An answer for one node can therefore improve the shapes of all later nodes.
- The inference never uses the declared shape of a Reshape output, because the answer is compared with this shape.
- If a model computes an item of a requested shape from dims, the item is usually the size of an output dim. However, if
  the item can be 0, it may instead copy an input dim in some runs of the model. If an item may copy a dim, the query
  treats this item as unknown. onnx treats the item as a size, so the shape that onnx infers for this output is not
  used.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeAlias

import onnx

from tensor_reshape.client.queries import MAX_CALL_QUERIES, ShapeQuery, infer_locally
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.onnx.annotations import (
    add_symbols,
    list_graphs,
    read_shapes,
    rename_params,
    strip_claims,
    strip_shapes,
    write_shapes,
)
from tensor_reshape.onnx.confirmations import add_origins, confirm, is_contradicted
from tensor_reshape.onnx.dim_params import DimParams, Key
from tensor_reshape.onnx.models import ModelError, ModelLike, ModelSource, expand_model, infer_model, load_model
from tensor_reshape.onnx.openvino_ir import read_ir
from tensor_reshape.onnx.probes import SECONDS, probe
from tensor_reshape.onnx.profiles import ProfileReport, ProfileShapes, run_profile
from tensor_reshape.onnx.reports import Finding, ModelReport, Verdict, find_disagreement
from tensor_reshape.onnx.requirements import find_requirements, list_dim_names
from tensor_reshape.onnx.reshape_nodes import ReshapeNode, find_reshape_nodes, list_shapes
from tensor_reshape.rules.dims import AnyDim, Interval
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import MAX_RANK
from tensor_reshape.rules.operations import OperationName

Answer: TypeAlias = InferredShape | ReshapeError
Ask: TypeAlias = Callable[[Sequence[ShapeQuery]], list[Answer]]

_ROUND_SECONDS = 10.0  # no further round begins after this time
_MIN_ROUNDS = 8  # this number of rounds is made even if they take longer
_MAX_CORRECTIONS = 64  # maximum number of rounds that find another node whose items may copy dims


def check_model(source: ModelLike, *, ask: Ask = infer_locally, probe_seconds: float = SECONDS) -> ModelReport:
    """Checks every Reshape node of an ONNX model, or of an OpenVINO IR (`model.xml` with `model.bin`).

    Args:
        source: the path or the bytes of a model file, or a `ModelProto`, which is not changed.
        ask: the function that infers the shapes, which is `infer_locally` or the method `infer_shapes` of a `Client`.
        probe_seconds: the maximum processor time in seconds for trying sizes of the inputs. With 0, no sizes are tried.

    Raises:
        ModelError: the source is not a model, or exceeds the limits of the check.
        ReshapeError: the whole batch exceeds a limit of the server.

    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 10, opset_import: ["": 21]>
    ...     graph (float[N, 12, 64] x) => (float[A, B] y) <int64[2] t = {0, -1}> { y = Reshape(x, t) }
    ... ''')
    >>> print(*check_model(model).findings)
    y: [N, 12, 64] under [0, -1] is [N, 768]
    """
    return _check(_load(source), ask, probe_seconds)[0]


def annotate_model(
    source: ModelLike, *, ask: Ask = infer_locally, probe_seconds: float = SECONDS
) -> tuple[ModelReport, onnx.ModelProto]:
    """Checks a model, and also returns a copy of it with the inferred output shapes.

    Only dims that the model leaves unknown are written. Declared dims are not changed, even if they are wrong. A
    written dim is a number, a name in the model, a formula such as `floor(h/2)`, or a product of these. The shapes of
    nodes in functions are not written, because they may differ between calls of the function.

    Raises:
        ModelError: the input is not a model, or is beyond the limits of the check.
        ReshapeError: the whole batch exceeds a limit of the server.

    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 10, opset_import: ["": 21]>
    ...     graph (float[6, 4] x) => (float y) <int64[1] t = {-1}> { z = Reshape(x, t)  y = ReduceSum<keepdims=0>(z) }
    ... ''')
    >>> report, annotated = annotate_model(model)
    >>> (value,) = annotated.graph.value_info
    >>> value.name, value.type.tensor_type.shape.dim[0].dim_value
    ('z', 24)
    """
    model = load_model(source)  # this call raises an error for an OpenVINO IR
    report, params = _check(ModelSource(model), ask, probe_seconds)
    answers = {
        finding.node.key: [None if params.is_open(dim) else dim for dim in finding.answer.dims]
        for finding in report.findings
        if not isinstance(finding.answer, ReshapeError) and finding.answer.dims is not None
    }
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    write_shapes(copy, infer_model(model)[0], answers, params)
    return report, copy


def check_profile(source: ModelLike, shapes: ProfileShapes) -> ProfileReport:
    """Computes a model for concrete shapes of its inputs. The weights are not read, and the model does not run.

    Args:
        source: the path or the bytes of a model file, or a `ModelProto`, which is not changed.
        shapes: the shapes of inputs, by the names of the inputs. Other inputs keep the dimensions that the model
            declares.

    Raises:
        ProfileError: an input does not exist, a rank is wrong, or a size contradicts the model.
        ModelError: the input is not a model, or is beyond the limits of the check.

    >>> check_profile(model, dict(x=[5, 12, 64])).decisions["", "y"].output
    (5, 768)
    """
    loaded = _load(source)
    expanded = loaded._replace(model=expand_model(loaded.model))
    return run_profile(expanded, shapes, _read_params(expanded.model, expanded.bounds))


def _load(source: ModelLike) -> ModelSource:
    if isinstance(source, str | Path) and Path(source).suffix == ".xml":
        return read_ir(Path(source))
    return ModelSource(load_model(source))


def _check(source: ModelSource, ask: Ask, probe_seconds: float) -> tuple[ModelReport, DimParams]:
    """Checks a model. If the tried sizes contradict a formula of a dim, the check is repeated without formulas."""
    rules = _apply_rules(source, ask, uses_formulas=bool(probe_seconds))
    report = rules.report
    if probe_seconds and report.findings:
        probes = probe(rules.source, rules.params, report.requirements, probe_seconds)
        if rules.params.formulas and (probes.base is None or is_contradicted(report, probes)):
            rules = _apply_rules(source, ask, uses_formulas=False)
        report = confirm(rules.report, probes, rules.stated, rules.params)
    return add_origins(report, rules.source), rules.params


class _Rules(NamedTuple):
    """The results of the reshape rules for a model, before any sizes are tried.

    Attributes:
        source: the expanded model.
        params: the names of the model's dims.
        stated: the shapes that the model declares for its tensors.
        report: the report of the check so far.
    """

    source: ModelSource
    params: DimParams
    stated: Mapping[Key, tuple[AnyDim, ...]]
    report: ModelReport


def _apply_rules(source: ModelSource, ask: Ask, *, uses_formulas: bool) -> _Rules:
    expanded = expand_model(source.model)
    params = _read_params(expanded, source.bounds)
    declared, stated = read_shapes(expanded, params), _read_declared(expanded, params)
    probed = source._replace(model=expanded)
    strip_shapes(expanded)
    if source.operation == "onnx_reshape":  # the shapes in an OpenVINO IR are kept, because OpenVINO has computed them
        strip_claims(expanded)
    current, note = infer_model(expanded)
    rename_params(current, params, "_onnx")
    inferred = read_shapes(current, params)
    if uses_formulas:
        add_symbols(current, expanded, params)
    nodes, answers = _infer_in_rounds(probed, current, params, ask, uses_formulas=uses_formulas)
    findings = [
        _judge(node, answer, declared.get(node.key), inferred.get(node.key), params)
        for node, answer in zip(nodes, answers, strict=True)
    ]
    names = _list_input_names(expanded, params)
    requirements, contradiction = find_requirements(nodes, answers, names, params.formulas)
    report = ModelReport(
        findings=tuple(findings),
        notes=tuple(filter(None, (note, source.note))),
        requirements=requirements,
        contradiction=contradiction,
    )
    return _Rules(probed, params, stated, report)


def _read_declared(model: onnx.ModelProto, params: DimParams) -> dict[Key, tuple[AnyDim, ...]]:
    """Returns the shapes that a model declares for intermediate tensors and outputs, with None for an unknown dim."""
    return {
        (path, info.name): params.read_declared(info.type.tensor_type.shape)
        for path, graph in list_graphs(model.graph)
        for info in (*graph.value_info, *graph.output)
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape")
    }


def _list_input_names(model: onnx.ModelProto, params: DimParams) -> frozenset[str]:
    """Returns the names in the dims of the model's inputs."""
    return frozenset(
        name
        for given in model.graph.input
        if given.type.HasField("tensor_type")
        for name in list_dim_names(params.read_shape(("", given.name), given.type.tensor_type.shape))
    )


def _read_params(model: onnx.ModelProto, bounds: Mapping[str, Interval]) -> DimParams:
    names = {
        dim.dim_param.strip()
        for _, graph in list_graphs(model.graph)
        for _, shape in list_shapes(graph)
        for dim in shape.dim
        if dim.dim_param
    }
    return DimParams(names, bounds)


def _infer_in_rounds(
    source: ModelSource, inferred: onnx.ModelProto, params: DimParams, ask: Ask, *, uses_formulas: bool
) -> tuple[list[ReshapeNode], list[Answer]]:
    """Returns the Reshape nodes, and the answer for each of them.

    After each round of queries, onnx infers the shapes again. The model of `source` must not declare shapes of Reshape
    outputs.
    """
    least, corrected, corrections, model = None, set[Key](), 0, source.model
    deadline = time.monotonic() + _ROUND_SECONDS
    for turn in count():
        nodes = find_reshape_nodes(inferred, params)
        answers = _infer_all([_build_query(node, params, source.operation) for node in nodes], ask)
        unknown = sum(
            0 if isinstance(answer, ReshapeError) else _count_open_dims(answer.dims, params) for answer in answers
        )
        # For a node that copies dims, onnx may infer a wrong output shape. The shapes that onnx infers for later nodes
        # are therefore used only after the answer for this node has been written into the model.
        copying = {node.key for node in nodes if node.copying}
        if not copying <= corrected:
            corrections += 1
            if corrections > _MAX_CORRECTIONS:
                break
        elif unknown in {0, least} or (turn >= _MIN_ROUNDS and time.monotonic() >= deadline):
            return nodes, answers
        least, corrected = unknown, corrected | copying
        # Each round starts from the shapes in the model, because onnx never improves a shape that it has inferred
        # before.
        strip_shapes(model)
        # The unknown output dims of copying nodes get names here, so that onnx does not create other names for them.
        shapes = {
            node.key: params.name_dims(node.key, answer.dims) if node.key in corrected else answer.dims
            for node, answer in zip(nodes, answers, strict=True)
            if not isinstance(answer, ReshapeError) and answer.dims is not None
        }
        write_shapes(model, inferred, shapes, params)
        inferred, _note = infer_model(model)
        rename_params(inferred, params, f"_onnx{turn}")
        if uses_formulas:
            add_symbols(inferred, model, params)
    message = (
        f"the check needs more than {_MAX_CORRECTIONS} rounds, because too many requested shapes are computed from the "
        "outputs of other Reshape nodes"
    )
    raise ModelError(message)


def _build_query(node: ReshapeNode, params: DimParams, operation: OperationName) -> ShapeQuery:
    is_linked = node.data_from is not None and (node.data is None or any(map(params.is_open, node.data)))
    return ShapeQuery(
        data_shape=None if is_linked else node.data,
        data_from=node.data_from if is_linked else None,
        shape=node.shape,
        special_zero=node.special_zero,
        operation=operation,
        explain=True,
    )


def _infer_all(queries: Sequence[ShapeQuery], ask: Ask) -> list[Answer]:
    """Infers the shapes of many queries in calls of up to 1,024 queries.

    If `data_from` of a query refers to a query in an earlier call, the output shape from that answer replaces it.
    """
    answers: list[Answer] = []
    for start in range(0, len(queries), MAX_CALL_QUERIES):
        call = [_relink(query, start, answers) for query in queries[start : start + MAX_CALL_QUERIES]]
        answers += ask(call)
    return answers


def _relink(query: ShapeQuery, start: int, answers: Sequence[Answer]) -> ShapeQuery:
    if query.data_from is None:
        return query
    if query.data_from >= start:
        return replace(query, data_from=query.data_from - start)
    answer = answers[query.data_from]
    dims = None if isinstance(answer, ReshapeError) else answer.dims
    return replace(query, data_from=None, data_shape=dims)


def _count_open_dims(dims: Sequence[AnyDim] | None, params: DimParams) -> int:
    """Returns the number of unknown dims in an answer. An unknown rank counts more than the dims of any shape."""
    return 1 + MAX_RANK if dims is None else sum(map(params.is_open, dims))


def _judge(
    node: ReshapeNode,
    answer: Answer,
    declared: tuple[AnyDim, ...] | None,
    inferred: tuple[AnyDim, ...] | None,
    params: DimParams,
) -> Finding:
    disagreements: tuple[str, ...] = ()
    verdict = Verdict.REJECTED
    if not isinstance(answer, ReshapeError):
        stated = (("the model", declared), ("onnx", inferred))
        found = (find_disagreement(source, dims, answer) for source, dims in stated)
        disagreements = tuple(text for text in found if text is not None)
        before, now = _count_open_dims(inferred, params), _count_open_dims(answer.dims, params)
        verdict = Verdict.NARROWED if 0 < now < before else Verdict.OPEN
        if now == 0:
            verdict = Verdict.CLOSED if before else Verdict.KNOWN
        if disagreements:
            verdict = Verdict.DISAGREES
    return Finding(
        node=node, answer=answer, declared=declared, inferred=inferred, disagreements=disagreements, verdict=verdict
    )
