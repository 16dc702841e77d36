"""Computes a model for concrete input shapes (a profile).

The name of an input dim gets its size from the shape of this input. A dim with the same name in another input gets the
same size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from tensor_reshape.onnx.annotations import list_graphs
from tensor_reshape.onnx.dim_params import DimParams, Key
from tensor_reshape.onnx.interpreter import Decision, Dims, Interpreter
from tensor_reshape.onnx.models import ModelError, ModelSource
from tensor_reshape.onnx.probes import evaluate_dim
from tensor_reshape.onnx.reports import describe_decision
from tensor_reshape.onnx.reshape_nodes import is_reshape
from tensor_reshape.rules.dims import AnyDim, Dim, find_bounds, find_name, format_dim, format_dims
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.wire.json_messages import Json

ProfileShapes: TypeAlias = Mapping[str, Sequence[int]]
"""The shape of each input, by the name of the input."""


class ProfileError(ModelError):
    """The shapes of a profile do not fit the inputs of the model.

    >>> issubclass(ProfileError, ModelError)
    True
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """The results of a model's nodes for the input shapes of a profile.

    Attributes:
        shapes: the shapes in the profile, by the names of the inputs.
        decisions: the results of the Reshape nodes that run, each under the path of its graph and the name of its
            output.
        labels: the names of the Reshape nodes, under the same keys.
        failures: a sentence for each other node that cannot run with these shapes.

    >>> check_profile(model, dict(x=[5, 12, 64])).result
    'accepted'
    """

    shapes: ProfileShapes
    decisions: Mapping[Key, Decision]
    labels: Mapping[Key, str]
    failures: tuple[str, ...]

    @property
    def result(self) -> str:
        """The verdict of all Reshape nodes together, which is `accepted`, `rejected` or `undecided`."""
        if any(decision.error is not None for decision in self.decisions.values()):
            return "rejected"
        return "undecided" if any(decision.cause for decision in self.decisions.values()) else "accepted"

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each Reshape node that rejects the shapes or is undecided, and for each other failing node."""
        bad = [key for key, decision in self.decisions.items() if decision.error is not None or decision.cause]
        return (*(f"{self.labels[key]}: {self.decisions[key]}" for key in bad), *self.failures)

    def to_json(self) -> Json:
        """Returns the profile and its result in the form of JSON."""
        return {
            "inputs": {name: list(shape) for name, shape in self.shapes.items()},
            "result": self.result,
            "nodes": [
                {"graph": graph, "output": output, "name": self.labels[graph, output], **describe_decision(decision)}
                for (graph, output), decision in self.decisions.items()
            ],
            "failures": list(self.failures),
        }


def run_profile(source: ModelSource, shapes: ProfileShapes, params: DimParams) -> ProfileReport:
    """Computes an expanded model for the shapes of a profile, and returns the results of its nodes."""
    run = Interpreter(source).run(_bind_inputs(source.model.graph, shapes, params))
    labels = {
        (path, node.output[0]): node.name or node.output[0]
        for path, graph in list_graphs(source.model.graph)
        for node in graph.node
        if is_reshape(node)
    }
    return ProfileReport(shapes=shapes, decisions=run.decisions, labels=labels, failures=tuple(run.failures.values()))


def _bind_inputs(graph: onnx.GraphProto, shapes: ProfileShapes, params: DimParams) -> dict[str, Dims | None]:
    """Checks the shapes of a profile, and derives the shapes of the other inputs from them.

    Returns the shapes of all inputs that have no default value, with None for an unknown dim.
    """
    inputs = {given.name: given.type for given in graph.input}
    given = [
        (f"dimension {place} of {name}", dim, shape[place])
        for name, shape in shapes.items()
        for place, dim in enumerate(_read_input(name, shape, inputs, params))
    ]
    for field, _, size in given:
        _check_range(field, size)
    sizes: dict[str, int] = {}
    for field, dim, size in given:
        bound_name = find_name(dim)
        if bound_name is not None and sizes.setdefault(bound_name, size) != size:
            raise ProfileError(f"{field} is {size}; the profile already has {format_dim(dim)} = {sizes[bound_name]}")
    for field, dim, size in given:
        _solve_product(field, dim, size, sizes)
    for field, dim, size in given:
        declared, bounds = evaluate_dim(dim, sizes), find_bounds(dim)
        if declared not in {None, size}:
            text = format_dim(dim) if dim == declared else f"{format_dim(dim)} = {declared}"
            raise ProfileError(f"{field} is {size}; the model declares {text}")
        if not bounds.holds(size):
            raise ProfileError(f"{field} is {size}; the model declares {format_dim(Dim(bounds))}")
    bound: dict[str, Dims | None] = {name: tuple(shape) for name, shape in shapes.items()}
    defaults = {tensor.name for tensor in (*graph.initializer, *(one.values for one in graph.sparse_initializer))}
    for name, kind in inputs.items():
        if name not in bound and name not in defaults and kind.tensor_type.HasField("shape"):
            dims = params.read_declared(kind.tensor_type.shape)
            bound[name] = tuple(evaluate_dim(dim, sizes) for dim in dims)
            for dim, value in zip(dims, bound[name] or (), strict=True):
                if value is not None:
                    _check_range(format_dim(dim), value)
    return bound


def _check_range(field: str, size: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_DIM:
        raise ProfileError(f"{field} is {size!r}; a size must be an integer from 0 to {MAX_DIM}")


def _solve_product(field: str, dim: AnyDim, size: int, sizes: dict[str, int]) -> None:
    """If a dim is a product with one name, such as `2*b`, derives the size of this name, unless it already has one."""
    expression = dim.expression if isinstance(dim, Dim) else None
    if expression is None or expression.divisors or len(expression.factors) != 1:
        return
    name = expression.factors[0].name
    found, rest = divmod(size * expression.divisor, expression.coefficient)
    if rest and name not in sizes:
        raise ProfileError(f"{field} is {size}; the model declares {format_dim(dim)}, which is {size} for no {name}")
    sizes.setdefault(name, found)


def _read_input(
    name: str, shape: Sequence[int], inputs: Mapping[str, onnx.TypeProto], params: DimParams
) -> Sequence[AnyDim]:
    """Returns the declared dims of an input. Raises ProfileError if the shape in the profile has another rank."""
    if name not in inputs:
        raise ProfileError(f"the model has no input {name}; its inputs are {', '.join(inputs) or 'none'}")
    if not inputs[name].HasField("tensor_type"):
        raise ProfileError(f"the input {name} is not a tensor")
    if not inputs[name].tensor_type.HasField("shape"):
        return [None] * len(shape)
    dims = params.read_declared(inputs[name].tensor_type.shape)
    if len(dims) != len(shape):
        message = f"the shape {format_dims(shape)} of {name} has rank {len(shape)}; the model declares "
        message += f"{format_dims(dims)}, of rank {len(dims)}"
        raise ProfileError(message)
    return dims
