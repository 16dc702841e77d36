"""A pass of a graph compiler: reshapes are checked, chains of them folded, and those without effect removed.

The batch size is not known when a model is compiled, so shapes have names in them. One batch of questions with links
(`data_from`) tells the shape of every node, or which reshape is wrong and why. What the pass rewrites is asked again
before it is believed: a folded reshape has to have the very shape of the chain that it stands for.

Run it against a server: `python examples/graph_compiler.py [HOST:PORT]`.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tensor_reshape.client import Client, Dim, InferredShape, ReshapeError, ShapeQuery

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Input:
    """What is fed to the graph; dims that are not known yet have names."""

    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Constant:
    """What is known when the graph is compiled."""

    value: Array


@dataclass(frozen=True)
class Relu:
    """An operation on each element: its output has the shape of its data."""

    data: str


@dataclass(frozen=True)
class Reshape:
    """OpenVINO's and ONNX's: a 0 copies."""

    data: str
    target: tuple[int, ...]


Node: TypeAlias = Input | Constant | Relu | Reshape


@dataclass(frozen=True)
class Graph:
    """Nodes by their names, each behind those that it reads, and the names of those that are read from outside."""

    nodes: Mapping[str, Node]
    outputs: tuple[str, ...]


class CompileError(Exception):
    """Some nodes of a graph cannot be: a line for each."""


def compile_graph(graph: Graph, client: Client) -> Graph:
    """Returns a graph that computes the same outputs with fewer reshapes.

    Raises:
        CompileError: a node is rejected, whatever the named dims are.
    """
    shapes = infer_shapes(graph, client)
    graph = fold_chains(graph, shapes, client)
    graph = remove_idle(graph, shapes)
    return remove_unread(fold_constants(graph, client))


def infer_shapes(graph: Graph, client: Client) -> dict[str, InferredShape]:
    """Returns the shape of each node, by one call for the whole graph."""
    queries, places = list[ShapeQuery](), dict[str, int]()
    for name, node in graph.nodes.items():
        if isinstance(node, Relu):
            places[name] = places[node.data]
            continue
        places[name] = len(queries)
        queries.append(write_query(node, places))
    answers = client.infer_shapes(queries)
    asked = {name: places[name] for name, node in graph.nodes.items() if not isinstance(node, Relu)}
    wrong = [f"{name}: {answers[place]}" for name, place in asked.items() if is_to_blame(answers[place])]
    if wrong:
        raise CompileError("\n".join(wrong))
    return {name: answer for name, place in places.items() if isinstance(answer := answers[place], InferredShape)}


def write_query(node: Input | Constant | Reshape, places: Mapping[str, int]) -> ShapeQuery:
    """Returns the question whose answer is the shape of a node."""
    if isinstance(node, Reshape):
        return ShapeQuery(
            data_from=places[node.data], shape=node.target, special_zero=True, operation="reshape", explain=True
        )
    # Its own shape, with every dim copied: so all shapes are told in one form, and what follows can be linked to it.
    shape = node.shape if isinstance(node, Input) else node.value.shape
    return ShapeQuery(data_shape=shape, shape=(0,) * len(shape), special_zero=True, operation="reshape")


def is_to_blame(answer: InferredShape | ReshapeError) -> bool:
    """Whether a node is wrong by itself, and not only because one before it is."""
    return isinstance(answer, ReshapeError) and answer.reason != "BATCH_DEPENDENCY_FAILED"


def fold_chains(graph: Graph, shapes: Mapping[str, InferredShape], client: Client) -> Graph:
    """Returns the graph where a reshape of a reshape reads what the first one reads."""
    folded = dict(list_folded(graph, shapes))
    queries = [
        ShapeQuery(data_shape=shapes[node.data].dims, shape=node.target, special_zero=True, operation="reshape")
        for node in folded.values()
    ]
    answers = zip(folded, client.infer_shapes(queries), strict=True)
    kept = {name: folded[name] for name, answer in answers if answer == shapes[name]}  # a rejection equals no shape
    return replace(graph, nodes={**graph.nodes, **kept})


def list_folded(graph: Graph, shapes: Mapping[str, InferredShape]) -> Iterator[tuple[str, Reshape]]:
    """Yields what each reshape of a reshape may become."""
    for name, node in graph.nodes.items():
        if not isinstance(node, Reshape):
            continue
        start = node.data
        while isinstance(before := graph.nodes[start], Reshape):
            start = before.data
        target = write_target(shapes[start], shapes[name])
        if start != node.data and target is not None:
            yield name, Reshape(start, target)


def write_target(data: InferredShape, output: InferredShape) -> tuple[int, ...] | None:
    """Returns a target that makes `output` of `data`; None where numbers, copies and one -1 cannot say it."""
    items = list[int]()
    for index, dim in enumerate(output):
        if isinstance(dim, int) and dim > 0:
            items.append(dim)
        else:
            items.append(0 if index < len(data) and is_named(dim) and data[index] == dim else -1)
    return None if items.count(-1) > 1 else tuple(items)


def remove_idle(graph: Graph, shapes: Mapping[str, InferredShape]) -> Graph:
    """Returns the graph without the reshapes whose output has the shape of their data."""
    nodes, stands_for = dict[str, Node](), dict[str, str]()
    for name, node in graph.nodes.items():
        moved = replace(node, data=stands_for.get(node.data, node.data)) if isinstance(node, Relu | Reshape) else node
        if isinstance(moved, Reshape) and shapes[name] == shapes[moved.data] and all(map(is_named, shapes[name])):
            stands_for[name] = moved.data
        else:
            nodes[name] = moved
    return Graph(nodes, tuple(stands_for.get(name, name) for name in graph.outputs))


def is_named(dim: int | Dim | None) -> bool:
    """Whether equal dims are one dim: numbers and names are, but two that lie between 1 and 8 may differ."""
    return isinstance(dim, int) or (dim is not None and dim.expression is not None)


def fold_constants(graph: Graph, client: Client) -> Graph:
    """Returns the graph where reshapes of constants are constants."""
    nodes = dict(graph.nodes)
    for name, node in nodes.items():
        data = nodes[node.data] if isinstance(node, Reshape) else None
        if isinstance(node, Reshape) and isinstance(data, Constant):
            nodes[name] = Constant(client.reshape(data.value, node.target, special_zero=True))
    return replace(graph, nodes=nodes)


def remove_unread(graph: Graph) -> Graph:
    """Returns the graph with the nodes that its outputs need."""
    needed = set(graph.outputs)
    for name, node in reversed([*graph.nodes.items()]):
        if name in needed and isinstance(node, Relu | Reshape):
            needed.add(node.data)
    return replace(graph, nodes={name: node for name, node in graph.nodes.items() if name in needed})


def run_graph(graph: Graph, feeds: Mapping[str, Array], client: Client) -> list[Array]:
    """Returns the outputs of a graph."""
    values = dict[str, Array]()
    for name, node in graph.nodes.items():
        if isinstance(node, Input):
            values[name] = feeds[name]
        elif isinstance(node, Constant):
            values[name] = node.value
        elif isinstance(node, Relu):
            values[name] = np.maximum(values[node.data], 0)
        else:
            values[name] = client.reshape(values[node.data], node.target, special_zero=True)
    return [values[name] for name in graph.outputs]


def describe(graph: Graph) -> str:
    """Returns a line for each node."""
    return "\n".join(f"  {name} = {describe_node(node)}" for name, node in graph.nodes.items())


def describe_node(node: Node) -> str:
    """Returns a node as people write one."""
    if isinstance(node, Reshape):
        return f"reshape({node.data}, {list(node.target)})"
    if isinstance(node, Relu):
        return f"relu({node.data})"
    return (
        f"constant of {list(node.value.shape)}"
        if isinstance(node, Constant)
        else f"input [{', '.join(map(str, node.shape))}]"
    )


EXAMPLE = Graph(
    {
        "images": Input(("N", 3, 16, 16)),
        "rows": Reshape("images", (0, -1)),
        "planes": Reshape("rows", (0, 3, -1)),  # of a reshape: `rows` is not needed
        "active": Relu("planes"),
        "same": Reshape("active", (-1, 3, 256)),  # [N, 3, 256] already
        "back": Reshape("same", (0, 0, 16, 16)),
        "weights": Constant(np.arange(12, dtype=np.float32)),
        "matrix": Reshape("weights", (3, -1)),  # of a constant
    },
    ("back", "matrix"),
)


def main(address: str) -> None:
    """Compiles a graph, compares it with itself before, and shows what a wrong one is rejected with."""
    with Client(address) as client:
        compiled = compile_graph(EXAMPLE, client)
        print(f"before:\n{describe(EXAMPLE)}\nafter:\n{describe(compiled)}")
        for batch in (1, 5):
            feeds = {"images": np.random.default_rng(batch).standard_normal((batch, 3, 16, 16), np.float32)}
            for expected, output in zip(
                run_graph(EXAMPLE, feeds, client), run_graph(compiled, feeds, client), strict=True
            ):
                np.testing.assert_array_equal(output, expected)
        try:
            wrong = {**EXAMPLE.nodes, "planes": Reshape("rows", (0, 5, -1))}
            compile_graph(replace(EXAMPLE, nodes=wrong), client)
        except CompileError as error:
            print(f"rejected:\n  {error}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
