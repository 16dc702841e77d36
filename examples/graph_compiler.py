"""A pass of a graph compiler that checks reshapes, merges chains of them, and removes those without effect.

The batch size is unknown when a model is compiled, so shapes contain names. One batch of dependent queries
(`data_from`) returns the shape of every node, or names each wrong reshape with the reason. The pass verifies its own
work: a merged reshape must have the same output shape as the chain that it replaces.

Run it with a running server: `python examples/graph_compiler.py [HOST:PORT]`.
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
    """An input of the graph. Unknown dimensions have names."""

    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Constant:
    """An array that is known when the graph is compiled."""

    value: Array


@dataclass(frozen=True)
class Relu:
    """An operation on each element. Its output has the shape of its data."""

    data: str


@dataclass(frozen=True)
class Reshape:
    """The Reshape of OpenVINO and ONNX. A 0 in the requested shape copies a dimension."""

    data: str
    shape: tuple[int, ...]


Node: TypeAlias = Input | Constant | Relu | Reshape


@dataclass(frozen=True)
class Graph:
    """The nodes by name, ordered so that each node follows its inputs, and the names of the output nodes."""

    nodes: Mapping[str, Node]
    outputs: tuple[str, ...]


class CompileError(Exception):
    """A graph has wrong nodes. The message has a line for each."""


def compile_graph(graph: Graph, client: Client) -> Graph:
    """Returns a graph that computes the same outputs with fewer reshapes.

    Raises:
        CompileError: a node fails for all values of the named dimensions.
    """
    shapes = infer_shapes(graph, client)
    graph = fold_chains(graph, shapes, client)
    graph = remove_useless(graph, shapes)
    return remove_unused(fold_constants(graph, client))


def infer_shapes(graph: Graph, client: Client) -> dict[str, InferredShape]:
    """Returns the shape of each node, with one call for the whole graph."""
    queries, indexes = list[ShapeQuery](), dict[str, int]()
    for name, node in graph.nodes.items():
        if isinstance(node, Relu):
            indexes[name] = indexes[node.data]
            continue
        indexes[name] = len(queries)
        queries.append(write_query(node, indexes))
    results = client.infer_shapes(queries)
    queried = {name: indexes[name] for name, node in graph.nodes.items() if not isinstance(node, Relu)}
    wrong = [f"{name}: {results[index]}" for name, index in queried.items() if is_wrong(results[index])]
    if wrong:
        raise CompileError("\n".join(wrong))
    return {name: result for name, index in indexes.items() if isinstance(result := results[index], InferredShape)}


def write_query(node: Input | Constant | Reshape, indexes: Mapping[str, int]) -> ShapeQuery:
    """Returns the query for the shape of a node."""
    if isinstance(node, Reshape):
        return ShapeQuery(
            data_from=indexes[node.data], shape=node.shape, special_zero=True, operation="reshape", explain=True
        )
    # A reshape that copies every dimension: all results then have one form, and later queries can refer to this one.
    shape = node.shape if isinstance(node, Input) else node.value.shape
    return ShapeQuery(data_shape=shape, shape=(0,) * len(shape), special_zero=True, operation="reshape")


def is_wrong(result: InferredShape | ReshapeError) -> bool:
    """Whether the node itself is wrong, and not only a node before it."""
    return isinstance(result, ReshapeError) and result.reason != "BATCH_DEPENDENCY_FAILED"


def fold_chains(graph: Graph, shapes: Mapping[str, InferredShape], client: Client) -> Graph:
    """Returns the graph in which a reshape of a reshape reads the data of the first one."""
    folded = dict(list_folded(graph, shapes))
    queries = [
        ShapeQuery(data_shape=shapes[node.data].dims, shape=node.shape, special_zero=True, operation="reshape")
        for node in folded.values()
    ]
    results = zip(folded, client.infer_shapes(queries), strict=True)
    kept = {name: folded[name] for name, result in results if result == shapes[name]}  # an error equals no shape
    return replace(graph, nodes={**graph.nodes, **kept})


def list_folded(graph: Graph, shapes: Mapping[str, InferredShape]) -> Iterator[tuple[str, Reshape]]:
    """Yields a candidate for each reshape of a reshape."""
    for name, node in graph.nodes.items():
        if not isinstance(node, Reshape):
            continue
        start = node.data
        while isinstance(before := graph.nodes[start], Reshape):
            start = before.data
        shape = write_shape(shapes[start], shapes[name])
        if start != node.data and shape is not None:
            yield name, Reshape(start, shape)


def write_shape(data: InferredShape, output: InferredShape) -> tuple[int, ...] | None:
    """Returns the items that reshape `data` to `output`, or None if numbers, copies and one -1 cannot express it."""
    items = list[int]()
    for index, dim in enumerate(output):
        if isinstance(dim, int) and dim > 0:
            items.append(dim)
        else:
            items.append(0 if index < len(data) and is_named(dim) and data[index] == dim else -1)
    return None if items.count(-1) > 1 else tuple(items)


def remove_useless(graph: Graph, shapes: Mapping[str, InferredShape]) -> Graph:
    """Returns the graph without reshapes that do not change the shape of their data."""
    nodes, stands_for = dict[str, Node](), dict[str, str]()
    for name, node in graph.nodes.items():
        moved = replace(node, data=stands_for.get(node.data, node.data)) if isinstance(node, Relu | Reshape) else node
        if isinstance(moved, Reshape) and shapes[name] == shapes[moved.data] and all(map(is_named, shapes[name])):
            stands_for[name] = moved.data
        else:
            nodes[name] = moved
    return Graph(nodes, tuple(stands_for.get(name, name) for name in graph.outputs))


def is_named(dim: int | Dim | None) -> bool:
    """Whether equal dimensions always have the same value. Numbers and names do; two dimensions from 1 to 8 may not."""
    return isinstance(dim, int) or (dim is not None and dim.expression is not None)


def fold_constants(graph: Graph, client: Client) -> Graph:
    """Returns the graph in which reshapes of constants are constants."""
    nodes = dict(graph.nodes)
    for name, node in nodes.items():
        data = nodes[node.data] if isinstance(node, Reshape) else None
        if isinstance(node, Reshape) and isinstance(data, Constant):
            nodes[name] = Constant(client.reshape(data.value, node.shape, special_zero=True))
    return replace(graph, nodes=nodes)


def remove_unused(graph: Graph) -> Graph:
    """Returns the graph with only the nodes that its outputs need."""
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
            values[name] = client.reshape(values[node.data], node.shape, special_zero=True)
    return [values[name] for name in graph.outputs]


def describe(graph: Graph) -> str:
    """Returns a line for each node."""
    return "\n".join(f"  {name} = {describe_node(node)}" for name, node in graph.nodes.items())


def describe_node(node: Node) -> str:
    """Returns the text of a node."""
    if isinstance(node, Reshape):
        return f"reshape({node.data}, {list(node.shape)})"
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
        "planes": Reshape("rows", (0, 3, -1)),  # a reshape of a reshape: `rows` is not needed
        "active": Relu("planes"),
        "same": Reshape("active", (-1, 3, 256)),  # `active` already has the shape [N, 3, 256]
        "back": Reshape("same", (0, 0, 16, 16)),
        "weights": Constant(np.arange(12, dtype=np.float32)),
        "matrix": Reshape("weights", (3, -1)),  # a reshape of a constant
    },
    ("back", "matrix"),
)


def main(address: str) -> None:
    """Compiles a graph, compares its outputs with those of the original, and prints the error of a wrong graph."""
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
