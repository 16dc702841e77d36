"""Computes the shapes of all tensors of a model for concrete input sizes, without running the model.

If the values of a node's inputs are known and small, onnx's reference implementation computes the node's output. The
requested shapes of Reshape nodes are therefore usually known. For any other node, onnx's shape inference computes only
the shapes. Reshape nodes follow the rules of this project, because onnx also accepts invalid reshapes, for example from
[5, 3] to [4, 2].

Invariants:

- Shapes that the model declares for intermediate tensors or outputs are not used. However, in an OpenVINO IR, the
  outputs of layers that onnx does not know have the shapes from the file.
- The values of tensors with more than MAX_ELEMENTS elements are not computed, and weights in other files are never
  opened.
- If a part of a tensor's shape or value is unknown, `cause` names the node or input from which this comes.
- The failure of a node is only reported if all shapes of the node's inputs are known, and if the node certainly runs
  for these sizes.
"""

import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_node_outputs

from tensor_reshape.client.queries import ShapeQuery, infer_locally
from tensor_reshape.onnx.models import MAX_ELEMENTS, ModelSource, list_subgraphs
from tensor_reshape.onnx.reshape_nodes import is_reshape, name_graph
from tensor_reshape.onnx.shape_values import Operand, compute_value, read_array, read_constant
from tensor_reshape.rules.dims import format_dims
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.limits import MAX_RANK

Dims: TypeAlias = tuple[int | None, ...]

_DOMAINS = ("", "ai.onnx")
_UNSTABLE = ("Bernoulli", "Dropout", "Multinomial", "Random", "Sequence", "Optional", "String")
"""The beginnings of the names of operators whose values are not computed."""
_WINDOWS = frozenset({"AveragePool", "Conv", "ConvInteger", "DeformConv", "LpPool", "MaxPool", "QLinearConv"})
"""Operators whose output has no elements if their kernel is larger than their input, although onnx infers a shape."""
_VALUE_SHAPED = frozenset({"NonZero", "Unique", "Compress"})
"""Operators whose output shape depends on values, and has not more elements than a small multiple of the input."""
_STARTS, _STEPS = 1, 4  # the indices of two inputs of the operator Slice
_FIRST_SCAN_WITHOUT_BATCH = 9
_ONNX_ERRORS = (InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError, KeyError)
_MAX_STEPS = 4  # maximum number of times that the body of a loop is computed


class Tensor(NamedTuple):
    """Contains what is known about a tensor.

    Attributes:
        kind: the element type as in `TensorProto`, or 0 if the tensor is unknown or a sequence.
        dims: the shape, with None for each unknown dim. The whole shape is None if the rank is unknown.
        value: the elements of the tensor, or None if they are unknown.
        cause: if a part of the tensor is unknown, the node or input that is the reason.
    """

    kind: int = 0
    dims: Dims | None = None
    value: np.ndarray[Any, Any] | None = None
    cause: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the rank and all dims of the tensor are known."""
        return self.dims is not None and None not in self.dims

    @property
    def size(self) -> int | None:
        """The number of elements of the tensor, or None if it is unknown."""
        return None if self.dims is None or None in self.dims else prod(dim for dim in self.dims if dim is not None)


class Decision(NamedTuple):
    """The result of a Reshape node for one set of input sizes.

    Attributes:
        data: the input shape, or None if its rank is unknown.
        target: the items of the requested shape, or None if their number is unknown.
        output: the output shape, or None if the reshape is rejected or the rank is unknown.
        error: the error if the reshape is rejected, or None if it is accepted or undecided.
        cause: the reason why the result is undecided, or an empty text if it is not.
    """

    data: Dims | None
    target: Dims | None
    output: Dims | None = None
    error: ReshapeError | None = None
    cause: str = ""

    def __str__(self) -> str:
        """The decision in one line, such as `[2, 12, 64] under [0, -1] is [2, 768]`."""
        shapes = f"{format_dims(self.data)} under {format_dims(self.target)}"
        if self.error is not None:
            return f"{shapes} rejected: {self.error} [{self.error.reason}]"
        return (
            f"{shapes} undecided, because of {self.cause}" if self.cause else f"{shapes} is {format_dims(self.output)}"
        )


@dataclass(slots=True)
class Run:
    """The result of computing a model for one set of input sizes.

    Attributes:
        tensors: all tensors of the model, each under the path of its graph and its name.
        decisions: the results of the Reshape nodes, each under the path of its graph and the name of its output.
        failures: a sentence for each other node that cannot run with these sizes.
    """

    tensors: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    decisions: dict[tuple[str, str], Decision] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def rejections(self) -> dict[tuple[str, str], Decision]:
        """The results of the Reshape nodes that reject the sizes."""
        return {key: decision for key, decision in self.decisions.items() if decision.error is not None}


class OutOfTimeError(Exception):
    """The check has used up its time.

    The time is the processor time of this thread, so other programs do not affect it.
    """


@dataclass(slots=True, eq=False)
class _Node:
    """A node of the model, and everything about it that does not change between runs.

    Attributes:
        proto: the ONNX message of the node.
        label: the operator and the name of the node.
        attributes: the attributes of the node, by name.
        graphs: the graphs inside the node, by the name of their attribute.
        results: a cache of the outputs, by what is known about the inputs. None means that the node cannot run with the
            inputs.
        evaluator: onnx's reference implementation of the node, or None before its first use.
    """

    proto: onnx.NodeProto
    label: str
    attributes: Mapping[str, onnx.AttributeProto]
    graphs: Mapping[str, "_Graph"]
    results: dict[tuple[Any, ...], Sequence[Tensor] | None] = field(default_factory=dict)
    evaluator: ReferenceEvaluator | None = None


@dataclass(slots=True, eq=False)
class _Graph:
    """A graph with its path, nodes, constants, and the names of its inputs and outputs."""

    path: str
    nodes: Sequence[_Node]
    constants: Mapping[str, Tensor]
    inputs: Sequence[str]
    outputs: Sequence[str]


class _Step(NamedTuple):
    """The state of one pass through a graph.

    Attributes:
        run: the result of the run so far.
        known: the tensors that nodes of this graph can use, by name.
        path: the path of the graph in the model.
        doubt: the reason why it is unknown whether the graph runs, or an empty text. If it is not empty and a Reshape
            node of the graph rejects the sizes, the result of this node is undecided.
    """

    run: Run
    known: ChainMap[str, Tensor]
    path: str
    doubt: str

    def set(self, name: str, tensor: Tensor) -> None:
        self.known[name] = self.run.tensors[self.path, name] = tensor


_Inputs: TypeAlias = Sequence[Tensor | None]  # an optional input that is left out is None


class Interpreter:
    """Computes the shapes of one model for any number of sets of input sizes."""

    def __init__(self, source: ModelSource) -> None:
        """Reads a model whose functions are expanded. The model must not change afterwards."""
        graph = source.model.graph
        self._operation, self._ir_version = source.operation, source.model.ir_version
        self._opsets = list(source.model.opset_import)
        self._versions = {opset.domain: opset.version for opset in self._opsets}
        self._versions[""] = max(self._versions.get("", 1), self._versions.get("ai.onnx", 1))
        self._inputs = list(graph.input)
        self._graph = _read_graph(graph, "")
        self._stated = _read_stated(graph) if source.operation == "reshape" else {}
        self._deadline = float("inf")

    def run(self, inputs: Mapping[str, Dims | None], deadline: float = float("inf")) -> Run:
        """Computes the model for these input shapes. An input that is not in `inputs` keeps its declared shape."""
        self._deadline = deadline
        step = _Step(Run(), ChainMap(), "", "")
        for name, tensor in self._graph.constants.items():
            step.set(name, tensor)
        for given in self._inputs:
            if given.name in inputs or given.name not in step.known:
                step.set(given.name, _make_input(given, inputs.get(given.name, _read_dims(given.type))))
        self._walk(self._graph, step)
        return step.run

    def _walk(self, graph: _Graph, step: _Step) -> None:
        for node in graph.nodes:
            if time.thread_time() > self._deadline:
                raise OutOfTimeError
            for name, tensor in zip(node.proto.output, self._compute(node, step), strict=False):
                if name:
                    step.set(name, tensor)

    def _compute(self, node: _Node, step: _Step) -> Sequence[Tensor]:
        """Returns the outputs of a node, and stores its failure if it cannot run."""
        names = node.proto.input
        inputs = [step.known.get(name, Tensor(cause=f"{name} does not exist")) if name else None for name in names]
        if is_reshape(node.proto):
            return [self._reshape(node, inputs, step)]
        special = _SPECIAL.get(node.proto.op_type) if node.proto.domain in _DOMAINS else None
        if special is not None:
            try:
                return special(self, node, inputs, step)
            except (IndexError, KeyError, ValueError):  # an input, an attribute or a graph of the node is missing
                return [Tensor(cause=f"{node.label} is malformed")] * len(node.proto.output)
        key = tuple(None if one is None else _make_key(one) for one in inputs)
        if key not in node.results:
            node.results[key] = self._infer(node, inputs)
        results = node.results[key]
        if results is None:
            shapes = ", ".join(format_dims(one.dims) for one in inputs if one is not None)
            if not step.doubt:
                output = next(filter(None, node.proto.output), node.proto.name)
                step.run.failures[step.path, output] = f"{node.label} cannot run with {shapes}"
            return [Tensor(cause=f"{node.label} cannot run")] * len(node.proto.output)
        return results

    def _infer(self, node: _Node, inputs: _Inputs) -> Sequence[Tensor] | None:
        """Infers the outputs of a node. Returns None if the node cannot run with these inputs."""
        operator = node.proto.op_type
        if operator == "Range":  # onnx only accepts scalars, but runtimes also accept tensors of one element
            inputs = [
                _hold(one.value.reshape(())) if one is not None and one.value is not None and one.size == 1 else one
                for one in inputs
            ]
        cause = next((one.cause for one in inputs if one is not None and not one.is_known), "")
        outputs = self._infer_shapes(node, inputs)
        if outputs is None:
            if not cause:
                return None
            outputs = [Tensor()] * len(node.proto.output)
        if any(dim is not None and dim < 0 for one in outputs for dim in one.dims or ()):
            return None
        if (
            operator in _WINDOWS
            and not cause
            and (inputs[0] is not None and inputs[0].size and any(one.size == 0 for one in outputs))
        ):
            return None
        if all(one is None or one.value is not None for one in inputs) and _may_evaluate(node, outputs):
            values = self._evaluate(node, inputs)
            outputs = outputs if values is None else [*map(_hold, values)]
        # A sequence has no element type. Its cause is always this node.
        causes = [cause or (_find_cause(node, inputs) if one.kind else node.label) for one in outputs]
        pairs = zip(outputs, causes, strict=True)
        return [one if one.value is not None else one._replace(cause=text) for one, text in pairs]

    def _infer_shapes(self, node: _Node, inputs: _Inputs) -> Sequence[Tensor] | None:
        """Returns the output shapes that onnx infers, or None if onnx rejects the inputs."""
        proto = node.proto
        try:
            schema = _find_schema(proto.op_type, self._versions.get(proto.domain, 1), proto.domain)
        except onnx.defs.SchemaError:
            return [Tensor(TensorProto.FLOAT, self._stated.get(name)) for name in proto.output]
        pairs = [(name, one) for name, one in zip(proto.input, inputs, strict=True) if one is not None]
        if not all(one.kind for _, one in pairs):
            return [Tensor()] * len(proto.output)
        try:
            inferred = infer_node_outputs(
                schema,
                proto,
                {name: _make_type(one.kind, one.dims) for name, one in pairs},
                {name: numpy_helper.from_array(one.value, name) for name, one in pairs if one.value is not None},
                opset_imports=self._opsets,
                ir_version=self._ir_version,
            )
        except _ONNX_ERRORS:
            return None
        return [_read_type(inferred[name]) if name in inferred else Tensor() for name in proto.output]

    def _evaluate(self, node: _Node, inputs: _Inputs) -> list[np.ndarray[Any, Any]] | None:
        """Computes the outputs of a node with onnx's reference implementation. Returns None if this is not possible."""
        if _is_odd(node, inputs):
            return None
        named = {name: one.value for name, one in zip(node.proto.input, inputs, strict=True) if one is not None}
        try:
            node.evaluator = node.evaluator or self._make_evaluator(node.proto)
            with np.errstate(all="ignore"):
                return [np.asarray(value) for value in node.evaluator.run(None, named)]
        except Exception:  # noqa: BLE001 - the reference implementation raises many kinds; the value is then unknown
            return None

    def _make_evaluator(self, node: onnx.NodeProto) -> ReferenceEvaluator:
        names = [dict.fromkeys(filter(None, one)) for one in (node.input, node.output)]
        inputs, outputs = ([helper.make_empty_tensor_value_info(name) for name in group] for group in names)
        graph = helper.make_graph([node], "node", inputs, outputs)
        return ReferenceEvaluator(helper.make_model(graph, opset_imports=self._opsets))

    def _reshape(self, node: _Node, inputs: _Inputs, step: _Step) -> Tensor:
        """Computes the output of a Reshape node, and stores the decision whether the reshape is accepted."""
        data = inputs[0] if inputs and inputs[0] is not None else Tensor(cause=f"{node.label} has no input tensor")
        if len(inputs) > 1:
            asked = inputs[1] or Tensor(cause=f"{node.label} has no requested shape")
        else:  # before opset 5, the requested shape is an attribute
            asked = _hold(np.array(node.attributes["shape"].ints if "shape" in node.attributes else (), np.int64))
        target = _list_items(asked)
        query = ShapeQuery(
            data_shape=data.dims,
            shape=target,
            special_zero=not ("allowzero" in node.attributes and node.attributes["allowzero"].i),
            operation=self._operation,
        )
        (answer,) = infer_locally([query])
        key = step.path, node.proto.output[0]
        unsure = ([] if data.is_known else [data.cause]) + ([] if asked.value is not None else [asked.cause])
        if isinstance(answer, ReshapeError):
            is_sure = isinstance(answer, InvalidRequestError) and not step.doubt
            doubt = step.doubt or next(iter(unsure), f"a limit: {answer}")
            decision = (
                Decision(data.dims, target, error=answer) if is_sure else Decision(data.dims, target, cause=doubt)
            )
            step.run.decisions[key] = decision
            return Tensor(data.kind, cause=f"{node.label} cannot run")
        is_accepted = not answer.conditions and answer.conditions_complete
        cause = "" if is_accepted else next(iter(unsure), "its shapes")
        dims = None if answer.dims is None else tuple(dim if isinstance(dim, int) else None for dim in answer.dims)
        # the body of a loop is computed several times, and a rejection must not be overwritten
        if key not in step.run.rejections:
            step.run.decisions[key] = Decision(data.dims, target, dims, cause=cause)
        result = Tensor(data.kind, dims, cause=cause or next(iter(unsure), data.cause))
        if data.value is not None and result.is_known:
            return result._replace(value=data.value.reshape(dims), cause="")
        return result

    def _shape(self, node: _Node, inputs: _Inputs, _step: _Step) -> Sequence[Tensor]:
        """Returns the output of a Shape or Size node."""
        data = inputs[0] if inputs and inputs[0] is not None else Tensor()
        value = compute_value(node.proto, [Operand(None, data.dims)])
        if value is not None and None not in value.flat:
            return [_hold(value.astype(np.int64))]
        return [Tensor(TensorProto.INT64, None if value is None else value.shape, cause=data.cause)]

    def _constant(self, node: _Node, _inputs: _Inputs, _step: _Step) -> Sequence[Tensor]:
        if () not in node.results:
            if "value" in node.attributes:
                node.results[()] = [_read_tensor(node.attributes["value"].t)]
            else:
                array = read_constant(node.attributes)
                node.results[()] = [Tensor(cause=node.label) if array is None else _hold(array)]
        return node.results[()] or ()

    def _branch(self, node: _Node, inputs: _Inputs, step: _Step) -> Sequence[Tensor]:
        condition = inputs[0] if inputs and inputs[0] is not None else Tensor()
        if condition.value is not None and condition.value.size == 1:
            chosen = "then_branch" if bool(condition.value.reshape(())) else "else_branch"
            return self._enter(node.graphs[chosen], node, step, (), step.doubt)
        doubt = step.doubt or f"the condition of {node.label}"
        results = [self._enter(graph, node, step, (), doubt) for graph in node.graphs.values()]
        return [reduce(partial(_join, cause=doubt), outputs) for outputs in zip(*results, strict=False)]

    def _loop(self, node: _Node, inputs: _Inputs, step: _Step) -> Sequence[Tensor]:
        # A Loop always has these two inputs, but their names may be empty.
        limit, goes_on, states = inputs[0], inputs[1], inputs[2:]
        turns = int(limit.value.reshape(-1)[0]) if limit is not None and limit.value is not None else None
        starts = goes_on is None or (goes_on.value is not None and bool(goes_on.value.all()))
        initial = [one or Tensor() for one in states]
        if turns is not None and turns <= 0:
            rest = len(node.proto.output) - len(initial)
            return [*initial, *[Tensor(cause=node.label)] * rest]
        is_sure = starts and (limit is None or turns is not None)
        doubt = step.doubt or ("" if is_sure else f"the turns of {node.label}")
        first = [Tensor(kind, (), cause=node.label) for kind in (TensorProto.INT64, TensorProto.BOOL)]
        final, others = self._repeat(node, step, doubt, lambda current: [*first, *current], initial, 1)
        # If the body of the loop can end the loop, the number of turns is unknown.
        known = turns if goes_on is None else None
        joined = final if is_sure else [_join(*pair, cause=doubt) for pair in zip(initial, final, strict=True)]
        return [*joined, *(_stack(one, known, 0, node.label) for one in others)]

    def _scan(self, node: _Node, inputs: _Inputs, step: _Step) -> Sequence[Tensor]:
        if self._versions[""] < _FIRST_SCAN_WITHOUT_BATCH:
            return [Tensor(cause=node.label)] * len(node.proto.output)
        number = node.attributes["num_scan_inputs"].i
        given = [one or Tensor() for one in inputs]
        states, scanned = given[: len(given) - number], given[len(given) - number :]
        axes = _list_axes(node, "scan_input_axes", number)
        slices = [_cut(one, axis) for one, axis in zip(scanned, axes, strict=True)]
        turns = next((one.dims[axis] for one, axis in zip(scanned, axes, strict=True) if one.dims), None)
        doubt = step.doubt or ("" if turns else f"the turns of {node.label}")
        final, others = self._repeat(node, step, doubt, lambda current: [*current, *slices], states, 0)
        places = _list_axes(node, "scan_output_axes", len(others))
        return [*final, *(_stack(one, turns, place, node.label) for one, place in zip(others, places, strict=True))]

    def _repeat(
        self,
        node: _Node,
        step: _Step,
        doubt: str,
        build_inputs: Callable[[Sequence[Tensor]], Sequence[Tensor]],
        states: Sequence[Tensor],
        skipped: int,
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Computes the body of a loop, and returns the final states and the other outputs.

        If a turn changes a dim of a state, this dim becomes unknown, and the body is computed again.
        """
        body = node.graphs["body"]
        current = [one._replace(value=None, cause=one.cause or node.label) for one in states]
        for _ in range(_MAX_STEPS):
            results = self._enter(body, node, step, build_inputs(current), doubt)[skipped:]
            after = [_join(*pair, cause=node.label) for pair in zip(current, results, strict=False)]
            if [one.dims for one in after] == [one.dims for one in current]:
                break
            current = after
        return current, results[len(current) :]

    def _enter(self, graph: _Graph, node: _Node, step: _Step, inputs: Sequence[Tensor], doubt: str) -> list[Tensor]:
        """Computes a graph inside a node, and returns its outputs."""
        inner = _Step(step.run, step.known.new_child(), graph.path, doubt)
        for name, tensor in (*graph.constants.items(), *zip(graph.inputs, inputs, strict=False)):
            inner.set(name, tensor)
        self._walk(graph, inner)
        return [inner.known.get(name, Tensor(cause=node.label)) for name in graph.outputs]


_SPECIAL: Mapping[str, Callable[[Interpreter, _Node, _Inputs, _Step], Sequence[Tensor]]] = {
    "Constant": Interpreter._constant,  # noqa: SLF001 - the methods of the class above
    "If": Interpreter._branch,  # noqa: SLF001
    "Loop": Interpreter._loop,  # noqa: SLF001
    "Scan": Interpreter._scan,  # noqa: SLF001
    "Shape": Interpreter._shape,  # noqa: SLF001
    "Size": Interpreter._shape,  # noqa: SLF001
}


def describe(node: onnx.NodeProto) -> str:
    """Returns the operator and the name of a node, or the name of its output if it has no name."""
    operator = f"{node.domain} {node.op_type}" if node.domain not in _DOMAINS else node.op_type
    return f"{operator} {node.name or next(filter(None, node.output), '')}"


_find_schema = lru_cache(4096)(onnx.defs.get_schema)


@lru_cache(65536)
def _make_type(kind: int, dims: Dims | None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(kind, dims)


def _read_type(proto: onnx.TypeProto) -> Tensor:
    return Tensor(proto.tensor_type.elem_type, _read_dims(proto)) if proto.HasField("tensor_type") else Tensor()


def _read_dims(proto: onnx.TypeProto) -> Dims | None:
    if not proto.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= -1 << 62 else None
        for dim in proto.tensor_type.shape.dim
    )


def _read_tensor(tensor: TensorProto) -> Tensor:
    array = read_array(tensor)
    cause = f"the values of the weight {tensor.name}" if array is None else ""
    return Tensor(tensor.data_type, tuple(tensor.dims), array, cause)


def _hold(value: np.ndarray[Any, Any]) -> Tensor:
    """Returns a tensor with this value. If the value is too large, only its shape is kept."""
    try:
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    except (KeyError, ValueError):
        return Tensor(cause="values of an unknown type")
    return Tensor(kind, value.shape, value if value.size <= MAX_ELEMENTS else None)


def _make_key(tensor: Tensor) -> tuple[Any, ...]:
    value = None if tensor.value is None else (tensor.value.dtype.str, tensor.value.tobytes())
    return tensor.kind, tensor.dims, value, tensor.cause if value is None else ""


def _find_cause(node: _Node, inputs: _Inputs) -> str:
    """Returns why the outputs of a node are not fully known, although the shapes of its inputs are known."""
    causes = (one.cause for one in inputs if one is not None and one.value is None and one.cause)
    return next(causes, node.label) if node.proto.domain in _DOMAINS else node.label


def _may_evaluate(node: _Node, outputs: Sequence[Tensor]) -> bool:
    """Whether the values of a node's outputs may be computed, because they are small and not random."""
    if node.proto.domain not in _DOMAINS or node.proto.op_type.startswith(_UNSTABLE):
        return False
    return node.proto.op_type in _VALUE_SHAPED or all(
        one.size is not None and one.size <= MAX_ELEMENTS for one in outputs
    )


def _is_odd(node: _Node, inputs: _Inputs) -> bool:
    """Whether onnx's reference implementation computes another value than the ONNX standard demands.

    It does so for integers divided by 0, and for a Slice with a negative step that starts before the first item.
    """
    values = [None if one is None else one.value for one in inputs]
    if node.proto.op_type in {"Div", "Mod"}:
        divisor = values[-1]
        return divisor is not None and divisor.dtype.kind in "iu" and not divisor.all()
    if node.proto.op_type != "Slice" or len(values) <= _STEPS:
        return False
    data, starts, steps = values[0], values[_STARTS], values[_STEPS]
    if data is None or starts is None or steps is None:
        return False
    return bool(((steps < 0) & (starts < -min(data.shape, default=0))).any())


def _list_items(asked: Tensor) -> Dims | None:
    """Returns the items of a requested shape, with None for an unknown item, or None if their number is unknown."""
    if asked.value is not None and asked.value.ndim == 1:
        return tuple(int(item) for item in asked.value)
    if asked.dims is None or len(asked.dims) != 1 or asked.dims[0] is None:
        return None
    return (None,) * asked.dims[0] if asked.dims[0] <= MAX_RANK else None


def _join(one: Tensor, other: Tensor, cause: str) -> Tensor:
    """Returns what is known about a tensor that is equal to one of two tensors."""
    if one.kind == other.kind and one.dims == other.dims:
        return one._replace(value=None, cause=one.cause or cause)
    kind = one.kind if one.kind == other.kind else 0
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return Tensor(kind, cause=cause)
    dims = tuple(a if a == b else None for a, b in zip(one.dims, other.dims, strict=True))
    return Tensor(kind, dims, cause=cause)


def _stack(tensor: Tensor, count: int | None, place: int, cause: str) -> Tensor:
    """Returns the tensor that a loop makes by stacking the outputs of its turns."""
    if tensor.dims is None:
        return Tensor(tensor.kind, cause=tensor.cause or cause)
    index = place if place >= 0 else place + len(tensor.dims) + 1
    dims = (*tensor.dims[:index], count, *tensor.dims[index:])
    return Tensor(tensor.kind, dims, cause=tensor.cause or cause)


def _cut(tensor: Tensor, axis: int) -> Tensor:
    """Returns the slice of a tensor that one turn of the operator Scan gets."""
    if tensor.dims is None:
        return tensor._replace(value=None)
    index = axis if axis >= 0 else axis + len(tensor.dims)
    return tensor._replace(dims=tensor.dims[:index] + tensor.dims[index + 1 :], value=None)


def _read_stated(graph: onnx.GraphProto) -> Mapping[str, Dims]:
    """Returns the shapes that OpenVINO has written into an IR.

    They are reliable, because OpenVINO computes them itself.
    """
    return {info.name: dims for info in graph.value_info if (dims := _read_dims(info.type)) is not None}


def _read_graph(graph: onnx.GraphProto, path: str) -> _Graph:
    sparse = [(one.values, tuple(one.dims)) for one in graph.sparse_initializer]
    constants = {tensor.name: _read_tensor(tensor) for tensor in graph.initializer}
    constants |= {one.name: Tensor(one.data_type, dims, cause="a sparse constant") for one, dims in sparse}
    nodes = [_read_node(node, path) for node in graph.node]
    return _Graph(path, nodes, constants, [one.name for one in graph.input], [one.name for one in graph.output])


def _read_node(node: onnx.NodeProto, path: str) -> _Node:
    graphs = {
        name: _read_graph(inner, name_graph(path, node.output, node.name, name)) for name, inner in list_subgraphs(node)
    }
    return _Node(node, describe(node), {attribute.name: attribute for attribute in node.attribute}, graphs)


def _make_input(given: onnx.ValueInfoProto, dims: Dims | None) -> Tensor:
    if not given.type.HasField("tensor_type"):
        return Tensor(cause=f"the input {given.name} is not a tensor")
    is_known = dims is not None and None not in dims
    cause = f"the {'values' if is_known else 'shape'} of the input {given.name}"
    return Tensor(given.type.tensor_type.elem_type, dims, cause=cause)


def _list_axes(node: _Node, name: str, count: int) -> list[int]:
    axes = list(node.attributes[name].ints) if name in node.attributes else []
    return [*axes, *[0] * (count - len(axes))][:count]
