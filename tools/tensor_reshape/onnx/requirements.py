"""Combines the conditions of all Reshape nodes into the requirements for the inputs of a model.

From the conditions, the solver derives values, ranges and divisors of single names. It uses a condition as soon as all
names on at least one side of the condition have a value. It does not combine two conditions that each contain several
unknown names, such as `a*b = 6` and `a*b = 8`.

Invariants:

- If the solver finds a contradiction, no values of the names satisfy all conditions.
- If the solver finds a value for a name, the name has this value in every solution.
- A requirement contains only names of input dims, or formulas with these names, such as `floor(h/2)`. If a condition
  contains another name, for example of a dim that onnx has named, this condition does not become a requirement.
  However, the solver uses the condition to find contradictions and values.
- Each node of the main graph runs in every run of the model. A node in a subgraph, for example in a branch of an If,
  does not always run. Its conditions become requirements with the path of the subgraph, and never cause a
  contradiction.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from math import comb, gcd, lcm
from typing import NamedTuple

from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.onnx.dim_params import list_words, read_formula
from tensor_reshape.onnx.reshape_nodes import ReshapeNode
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_expression
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.products import find_exact_root
from tensor_reshape.wire.inference import encode_condition
from tensor_reshape.wire.json_messages import Json, describe_message

_SHOWN_NODES = 3

_MAX_SETS = 20_000
"""The largest number of node sets that the search for a smallest set tries."""

_MAX_CORE = 256
"""The largest number of demands from which unnecessary ones are removed, because each removal solves the others."""


class Demand(NamedTuple):
    """A condition, and the index of the node that demands it."""

    condition: Condition
    node: int


class Solution(NamedTuple):
    """The result of solving a list of demands.

    Attributes:
        values: for each name that has only one possible value, this value and the demand from which it was derived
            last.
        contradicting: the demands that contradict each other. Empty if the solver finds no contradiction.
    """

    values: Mapping[str, tuple[int, Demand]]
    contradicting: tuple[Demand, ...] = ()


def solve(demands: Sequence[Demand], positive: AbstractSet[str] = frozenset()) -> Solution:
    """Returns the values of names that follow from the demands, or the demands that contradict each other."""
    return _Solver(demands, positive).run()


def find_contradiction(demands: Sequence[Demand], positive: AbstractSet[str] = frozenset()) -> tuple[Demand, ...]:
    """Returns a smallest set of demands that contradict each other, or an empty tuple if none are found.

    The demands come from as few nodes as possible. However, if there are more than `_MAX_SETS` sets of nodes to try,
    the demands may come from more nodes. Each demand in the result is necessary for the contradiction, unless the
    solver has found more than `_MAX_CORE` demands.
    """
    core = _shrink(solve(demands, positive).contradicting, positive)
    by_node: dict[int, list[Demand]] = {}
    for demand in demands:
        by_node.setdefault(demand.node, []).append(demand)
    left = _MAX_SETS
    for size in range(1, len({demand.node for demand in core})):
        left -= comb(len(by_node), size)
        if left < 0:
            break
        for nodes in combinations(by_node.values(), size):
            found = solve([demand for group in nodes for demand in group], positive).contradicting
            if found:
                return _shrink(found, positive)
    return core


def _shrink(demands: tuple[Demand, ...], positive: AbstractSet[str]) -> tuple[Demand, ...]:
    """Removes the demands that are not necessary for the contradiction."""
    if len(demands) > _MAX_CORE:
        return demands
    kept = list(demands)
    for demand in demands:
        others = [other for other in kept if other is not demand]
        if solve(others, positive).contradicting:
            kept = others
    return tuple(kept)


class _Contradiction(Exception):  # noqa: N818 - the solver catches it
    """The demands have no solution."""


class _Solver:
    """Narrows the range of each name by applying the demands one after the other, until no range changes."""

    def __init__(self, demands: Sequence[Demand], positive: AbstractSet[str]) -> None:
        self._demands = demands
        self._ranges: dict[str, Interval] = {}
        self._steps: dict[str, int] = {}
        self._causes: dict[str, list[int]] = {}  # the indices of the demands that have narrowed the range of a name
        self._users: dict[str, list[int]] = {}  # the indices of the demands that contain a name
        for place, (condition, _) in enumerate(demands):
            for symbol in condition.list_symbols():
                bounds = symbol.bounds.meet(Interval(1, None)) if symbol.name in positive else symbol.bounds
                self._ranges[symbol.name] = self._ranges.get(symbol.name, ANY).meet(bounds)
                self._users.setdefault(symbol.name, []).append(place)
        self._pending = deque(range(len(demands)))
        self._place = 0

    def run(self) -> Solution:
        """Applies the demands until nothing changes, and returns the result."""
        try:
            while self._pending:
                self._place = self._pending.popleft()
                self._apply(self._demands[self._place].condition)
        except _Contradiction:
            return Solution({}, tuple(self._demands[place] for place in self._list_causes()))
        return Solution(
            {
                name: (low, self._demands[self._causes[name][-1]])
                for name, (low, high) in self._ranges.items()
                if low == high and name in self._causes
            }
        )

    def _list_causes(self) -> list[int]:
        """Returns the indices of the demands from which the contradiction was derived."""
        found, open_places = {self._place}, [self._place]
        while open_places:
            condition = self._demands[open_places.pop()].condition
            for cause in (cause for name in condition.symbols for cause in self._causes.get(name, ())):
                if cause not in found:
                    found.add(cause)
                    open_places.append(cause)
        return sorted(found)

    def _apply(self, condition: Condition) -> None:
        """Derives ranges of names from one condition."""
        if condition.unless_zero is not None:
            number, names = self._reduce(condition.unless_zero)
            if number == 0 or any(self._ranges[name].min == 0 for name in names):
                return  # the condition only applies to tensors with elements, but the tensor may be empty
        if condition.right is None:
            self._apply_range(condition)
        elif condition.kind is ConditionKind.EQUAL:
            self._equate(self._reduce(condition.left), self._reduce(condition.right))
        else:
            self._divide(self._reduce(condition.left), self._reduce(condition.right))

    def _reduce(self, product: Expression) -> tuple[int, Counter[str]]:
        """Splits a product into a number and the names without a value.

        The number contains the values of the other names.
        """
        number, names = product.coefficient, Counter[str]()
        for symbol in product.factors:
            low, high = self._ranges[symbol.name]
            if low == high:
                number *= low
            else:
                names[symbol.name] += 1
        return (0, Counter()) if number == 0 else (number, names)

    def _apply_range(self, condition: Condition) -> None:
        if condition.left.symbol is not None:
            self._narrow(condition.left.symbol.name, Interval(condition.min or 0, condition.max))
            return
        ranges = {name: self._ranges[name] for name in condition.symbols}
        if all(low == high for low, high in ranges.values()):
            _require(condition.holds({name: low for name, (low, _) in ranges.items()}))

    def _equate(self, one: tuple[int, Counter[str]], other: tuple[int, Counter[str]]) -> None:
        (number, names), (value, rest) = (one, other) if one[1] else (other, one)
        if rest:
            return  # nothing can be derived, because both sides have names without a value
        if not names:
            _require(number == value)
        elif value == 0:
            zeros = [name for name in names if self._ranges[name].min == 0]
            _require(bool(zeros))
            if len(zeros) == 1:
                self._narrow(zeros[0], Interval(0, 0))
        else:
            _require(value % number == 0)
            self._solve_product(names, value // number)

    def _solve_product(self, names: Counter[str], value: int) -> None:
        """Narrows the ranges of the names in a product that has the given value above 0."""
        for name, power in names.items():
            if len(names) > 1:
                self._narrow(name, Interval(1, value))
                continue
            root = find_exact_root(value, power)
            _require(root is not None)
            self._narrow(name, Interval(root or 0, root))

    def _divide(self, one: tuple[int, Counter[str]], other: tuple[int, Counter[str]]) -> None:
        (number, names), (value, rest) = one, other
        if number == 0:
            self._equate(other, (0, Counter()))
        elif not rest:
            if value:
                _require(value % number == 0)
                for name in names:
                    self._narrow(name, Interval(1, value // number))
        elif not names and rest.total() == 1:
            (name,) = rest
            step = number // gcd(number, value)
            self._steps[name] = lcm(step, self._steps.get(name, 1))
            self._narrow(name, ANY, is_step=step > 1)

    def _narrow(self, name: str, bounds: Interval, *, is_step: bool = False) -> None:
        old, step = self._ranges[name], self._steps.get(name, 1)
        low, high = old.meet(bounds)
        new = Interval(-(-low // step) * step, None if high is None else high // step * step)
        if new != old or is_step:
            causes = self._causes.setdefault(name, [])
            if self._place not in causes:
                causes.append(self._place)
        if new != old:
            self._ranges[name] = new
            _require(not new.is_empty)
            self._pending.extend(place for place in self._users[name] if place != self._place)


def _require(is_true: bool) -> None:  # noqa: FBT001 - like an assertion
    if not is_true:
        raise _Contradiction


class ModelVerdict(Enum):
    """The verdict about the inputs of a model.

    >>> check_model(model).verdict.value
    'ok'
    """

    OK = "ok"
    """No condition restricts the input dimensions, except that some tensors may not be empty."""

    RESTRICTED = "restricted"
    """A divisibility or a relation of dimensions restricts the inputs of the model, or a node rejects some sizes."""

    UNDECIDED = "undecided"
    """No sizes were found that every node accepts, or a Reshape node depends on something unknown."""

    FROZEN = "frozen"
    """A dimension that the model declares dynamic has only one legal value, or a product of such dimensions has."""

    CONTRADICTION = "contradiction"
    """No input with elements satisfies the conditions of all nodes."""

    REJECTED = "rejected"
    """A node fails for every input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A condition that the input dimensions of a model must satisfy.

    Attributes:
        condition: the condition. It contains only names of input dimensions, or formulas with these names.
        nodes: the indices of the nodes that demand the condition.
        labels: the names of these nodes. A node without a name has the name of its output.
        graph: the path of the subgraph that contains the nodes, or an empty text for the main graph. If the subgraph
            does not run, the condition does not apply.
        verdict: the verdict about the condition, which is OK, RESTRICTED or FROZEN.

    >>> [str(requirement.condition) for requirement in check_model(model).requirements]
    ['N >= 1']
    """

    condition: Condition
    nodes: tuple[int, ...]
    labels: tuple[str, ...]
    graph: str
    verdict: ModelVerdict

    def __str__(self) -> str:
        """The requirement as one line of text, such as `batch = 1 (node /Reshape_5)`."""
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


def list_dim_names(dims: Iterable[AnyDim]) -> Iterator[str]:
    """Yields the names in the dims. A name may be yielded several times."""
    for dim in dims:
        if isinstance(dim, Dim) and dim.expression is not None:
            yield from (symbol.name for symbol in dim.expression.symbols)


def find_requirements(
    nodes: Sequence[ReshapeNode],
    answers: Sequence[InferredShape | ReshapeError],
    inputs: AbstractSet[str],
    formulas: Iterable[str],
) -> tuple[tuple[Requirement, ...], tuple[Demand, ...]]:
    """Returns the requirements of a model, and a smallest set of conditions that contradict each other, or none."""
    names = {*inputs, *(name for name in formulas if (tree := read_formula(name)) and list_words(tree) <= inputs)}
    demands: dict[tuple[str, Condition], list[Demand]] = {}
    for index, (node, answer) in enumerate(zip(nodes, answers, strict=True)):
        linked = None if node.data_from is None else answers[node.data_from]
        data = () if linked is None or isinstance(linked, ReshapeError) else linked.dims or ()
        # Conditions with positions such as `data[0]` are not used, because the same position means other dims at
        # another node.
        own = set(list_dim_names([*(node.data or ()), *data, *(node.shape or ())]))
        for condition in () if isinstance(answer, ReshapeError) else answer.conditions:
            if condition.symbols <= own:
                key = node.graph, condition._replace(rule=0, item="")
                demands.setdefault(key, []).append(Demand(condition, index))
    always = [demand for (graph, _), group in demands.items() if not graph for demand in group[:1]]
    contradiction = find_contradiction(always, inputs)
    found = [
        _make_requirement(group[0].condition, [demand.node for demand in group], nodes)
        for (graph, condition), group in demands.items()
        if condition.symbols <= names and not (graph and ("", condition) in demands)
    ]
    stated = _list_frozen(found)
    for name, (value, (source, place)) in solve(always).values.items():
        if name in inputs and name not in stated:
            left, right = make_expression(1, [Symbol(name)]), make_expression(value, ())
            condition = Condition(ConditionKind.EQUAL, left, right, rule=source.rule, item=source.item)
            found.append(_make_requirement(condition, [place], nodes))
    frozen = _list_frozen(found)
    kept = [one for one in found if one.verdict is not ModelVerdict.OK or not one.condition.symbols <= frozen]
    return tuple(kept), contradiction


def _list_frozen(requirements: Iterable[Requirement]) -> set[str]:
    """Returns the names that can have only one value. Names with several values but a fixed product are left out."""
    return {
        name
        for one in requirements
        if one.verdict is ModelVerdict.FROZEN and one.condition.left.symbol is not None
        for name in one.condition.symbols
    }


def _make_requirement(condition: Condition, places: list[int], nodes: Sequence[ReshapeNode]) -> Requirement:
    graph = nodes[places[0]].graph
    verdict = judge(condition)
    return Requirement(
        condition=condition,
        nodes=tuple(places),
        labels=tuple(nodes[place].label for place in places),
        graph=graph,
        # If the subgraph does not run, the dims can have any size, so they are not frozen.
        verdict=ModelVerdict.RESTRICTED if graph and verdict is ModelVerdict.FROZEN else verdict,
    )


def judge(condition: Condition) -> ModelVerdict:
    """Returns the verdict about a condition of a node that always runs: OK, RESTRICTED or FROZEN."""
    left, right = condition.left, condition.right
    if condition.kind is ConditionKind.RANGE and (condition.min, condition.max) == (1, None):
        return ModelVerdict.OK  # only an empty tensor is excluded
    if condition.kind is not ConditionKind.EQUAL or right is None or right.factors:
        return ModelVerdict.RESTRICTED
    # If a product must be 0, one of its names is 0 and the others can have any value, so none of the names is frozen.
    return ModelVerdict.FROZEN if left.symbol is not None or right.coefficient else ModelVerdict.RESTRICTED
