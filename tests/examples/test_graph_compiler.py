"""The example of a graph compiler: what it says, and that it is right."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from examples.graph_compiler import (
    EXAMPLE,
    CompileError,
    Constant,
    Graph,
    Input,
    Relu,
    Reshape,
    compile_graph,
    run_graph,
)

from documents import ROOT, read_blocks
from server_processes import ServerProcess
from tensor_reshape.client import Client


def test_the_example_prints_what_its_page_shows_and_why_a_wrong_graph_is_refused(server: ServerProcess):
    command = (sys.executable, ROOT / "examples/graph_compiler.py", server.address)
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (shown,) = [block.text for block in read_blocks(ROOT / "docs/how-to/examples.md") if block.language == "text"]

    assert printed.startswith(f"{shown}refused:\n  planes: shape[2] is -1: 768 elements do not divide by 5")


def test_chains_are_folded_idle_reshapes_removed_and_constants_reshaped(client: Client):
    compiled = compile_graph(EXAMPLE, client)

    assert [name for name, node in compiled.nodes.items() if isinstance(node, Reshape)] == ["planes", "back"]
    assert compiled.nodes["planes"] == Reshape("images", (0, 3, 256))
    assert isinstance(compiled.nodes["matrix"], Constant)
    assert "weights" not in compiled.nodes


def test_the_compiled_graph_computes_the_same(client: Client):
    images = np.random.default_rng(0).standard_normal((3, 3, 16, 16), np.float32)
    compiled = compile_graph(EXAMPLE, client)

    before, after = (run_graph(graph, {"images": images}, client) for graph in (EXAMPLE, compiled))
    assert all(np.array_equal(*outputs) for outputs in zip(before, after, strict=True))


def test_an_output_that_is_no_node_any_more_is_its_data(client: Client):
    graph = Graph({"x": Input(("N", 4)), "y": Relu("x"), "same": Reshape("y", (-1, 4))}, ("same",))

    assert compile_graph(graph, client) == Graph({"x": Input(("N", 4)), "y": Relu("x")}, ("y",))


def test_a_reshape_that_keeps_a_shape_of_unnamed_dims_stays(client: Client):
    graph = Graph({"x": Input(("1..8", 4)), "same": Reshape("x", (-1, 4))}, ("same",))

    assert compile_graph(graph, client) == graph


def test_a_chain_whose_output_no_single_target_makes_stays(client: Client):
    """Two dims change their places, and only one -1 may be in a target."""
    shape = Input(("A", "B", "C"))
    graph = Graph({"x": shape, "y": Reshape("x", (0, 0, 1, -1)), "z": Reshape("y", (0, 1, -1, 0))}, ("z",))

    assert compile_graph(graph, client) == graph


def test_only_the_reshape_that_is_wrong_by_itself_is_named(client: Client):
    nodes = dict(EXAMPLE.nodes)
    nodes["rows"] = Reshape("images", (0, -1, -1))
    wrong = replace(EXAMPLE, nodes=nodes)

    with pytest.raises(CompileError) as caught:
        compile_graph(wrong, client)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["rows"]


def test_an_input_that_cannot_be_is_named(client: Client):
    graph = Graph({"x": Input(("5..2",)), "y": Reshape("x", (-1,))}, ("y",))

    with pytest.raises(CompileError, match=r"^x: data"):
        compile_graph(graph, client)
