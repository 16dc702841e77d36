"""Combines the conditions of all Reshape nodes into the requirements for the inputs of a model.

Invariants:

- A requirement contains only names of input dims, and formulas of such names. A condition that contains another name,
  for example a dim that onnx has named, is used to find contradictions and values, but is not a requirement.
- Each node of the main graph runs in every run of the model. A node of a subgraph, for example of a branch of an If,
  may not run. Its conditions are requirements with the path of the subgraph, and never cause a contradiction.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tensor_reshape.onnx.constraints import Demand, find_contradiction, solve
from tensor_reshape.onnx.formulas import list_words, read_formula
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, Symbol, make_expression
from tensor_reshape.wire.inference import encode_condition
from tensor_reshape.wire.json_messages import Json, describe_message

_SHOWN_NODES = 3


class ModelVerdict(Enum):
    """The verdict about the inputs of a model.

    >>> check_model(model).verdict.value
    'ok'
    """

    OK = "ok"
    """No condition restricts the input dims, except that some tensors may not be empty."""

    RESTRICTED = "restricted"
    """A divisibility or a relation restricts the dims that the model declares dynamic, or a node rejects some sizes."""

    UNDECIDED = "undecided"
    """No sizes were found that every node accepts, or a Reshape node depends on something unknown."""

    FROZEN = "frozen"
    """A dim that the model declares dynamic has only one legal value."""

    CONTRADICTION = "contradiction"
    """No input with elements satisfies the conditions of all nodes."""

    REJECTED = "rejected"
    """A node fails for every input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A condition that the inputs of a model must satisfy.

    Attributes:
        condition: the condition. Its names are names of input dims, or formulas of them.
        nodes: the indices of the nodes that demand the condition.
        labels: the names of these nodes, or of their outputs.
        graph: the path of the subgraph with the nodes. If the subgraph does not run, the condition does not apply. The
            path is empty for the main graph.
        verdict: OK, RESTRICTED or FROZEN.

    >>> [str(requirement.condition) for requirement in check_model(model).requirements]
    ['N >= 1']
    """

    condition: Condition
    nodes: tuple[int, ...]
    labels: tuple[str, ...]
    graph: str
    verdict: ModelVerdict

    def __str__(self) -> str:
        """The requirement in one line, such as `batch = 1 (node /Reshape_5)`."""
        parts = ["declared dynamic"] if self.verdict is ModelVerdict.FROZEN else []
        if self.graph:
            parts.append(f"if {self.graph} runs")
        shown = ", ".join(self.labels[:_SHOWN_NODES])
        hidden = len(self.labels) - _SHOWN_NODES
        parts.append(f"{'node' if len(self.labels) == 1 else 'nodes'} {shown}{f' and {hidden} more' * (hidden > 0)}")
        return f"{self.condition} ({'; '.join(parts)})"

    def to_json(self) -> Json:
        """Returns the requirement in the form of JSON."""
        return {
            "condition": describe_message(encode_condition(self.condition)),
            "nodes": list(self.nodes),
            "graph": self.graph,
            "verdict": self.verdict.value,
        }


class NodeConditions(NamedTuple):
    """The conditions of one node.

    Attributes:
        label: the name of the node, or of its output.
        graph: the path of the graph with the node.
        names: the names of the dims in the query of the node.
        conditions: the conditions of the answer.
    """

    label: str
    graph: str
    names: AbstractSet[str]
    conditions: tuple[Condition, ...]


def list_dim_names(dims: Iterable[AnyDim]) -> Iterator[str]:
    """Yields the names in dims, which may repeat."""
    for dim in dims:
        if isinstance(dim, Dim) and dim.expression is not None:
            yield from (symbol.name for symbol in dim.expression.symbols)


def find_requirements(
    nodes: Sequence[NodeConditions], inputs: AbstractSet[str], formulas: Iterable[str] = ()
) -> tuple[tuple[Requirement, ...], tuple[Demand, ...]]:
    """Returns the requirements of a model, and a smallest set of conditions that no input with elements satisfies.

    Args:
        nodes: the conditions of each Reshape node.
        inputs: the names of the input dims.
        formulas: names that are formulas, such as `floor(h/2)`.
    """
    names = {*inputs, *(name for name in formulas if (tree := read_formula(name)) and list_words(tree) <= inputs)}
    # Two nodes may call different dims by the same position, such as `data[0]`. Conditions with positions are not used.
    demands: dict[tuple[str, Condition], list[Demand]] = {}
    for index, node in enumerate(nodes):
        for condition in node.conditions:
            if condition.symbols <= node.names:
                key = node.graph, condition._replace(rule=0, item="")
                demands.setdefault(key, []).append(Demand(condition, index))
    always = [demand for (graph, _), group in demands.items() if not graph for demand in group[:1]]
    contradiction = find_contradiction(always, inputs)
    found = [
        _make_requirement(group[0].condition, [demand.node for demand in group], nodes)
        for (graph, condition), group in demands.items()
        if condition.symbols <= names and not (graph and ("", condition) in demands)
    ]
    stated = {name for one in found if one.verdict is ModelVerdict.FROZEN for name in one.condition.symbols}
    for name, (value, (source, place)) in solve(always).values.items():
        if name in inputs and name not in stated:
            left, right = make_expression(1, [Symbol(name)]), make_expression(value, ())
            condition = Condition(ConditionKind.EQUAL, left, right, rule=source.rule, item=source.item)
            found.append(_make_requirement(condition, [place], nodes))
    frozen = {name for one in found if one.verdict is ModelVerdict.FROZEN for name in one.condition.symbols}
    kept = [one for one in found if one.verdict is not ModelVerdict.OK or not one.condition.symbols <= frozen]
    return tuple(kept), contradiction


def _make_requirement(condition: Condition, places: list[int], nodes: Sequence[NodeConditions]) -> Requirement:
    graph = nodes[places[0]].graph
    verdict = _judge(condition)
    return Requirement(
        condition=condition,
        nodes=tuple(places),
        labels=tuple(nodes[place].label for place in places),
        graph=graph,
        # A subgraph that does not run leaves its dims free.
        verdict=ModelVerdict.RESTRICTED if graph and verdict is ModelVerdict.FROZEN else verdict,
    )


def _judge(condition: Condition) -> ModelVerdict:
    left, right = condition.left, condition.right
    if condition.kind is ConditionKind.RANGE and (condition.min, condition.max) == (1, None):
        return ModelVerdict.OK  # the tensor may not be empty
    is_value = left.symbol is not None and right is not None and not right.factors
    return ModelVerdict.FROZEN if is_value and condition.kind is ConditionKind.EQUAL else ModelVerdict.RESTRICTED
