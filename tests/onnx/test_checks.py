"""The check of a model: its queries, its answers, and the use of answers for later nodes."""

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

from hypothesis_profiles import examples
from tensor_reshape.client import InferredShape, ReshapeError, ShapeQuery, infer_locally
from tensor_reshape.client.queries import MAX_CALL_QUERIES
from tensor_reshape.onnx import Finding, ModelReport, Verdict, annotate_model, check_model
from tensor_reshape.onnx.dim_params import compute, read_formula
from tensor_reshape.rules.dims import find_bounds
from tensor_reshape.rules.names import read_product


def parse(
    nodes: str, inputs: str = "float[N,S,768] x", outputs: str = "float[] y", constants: str = ""
) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs}) {constants} {{ {nodes} }}'
    )


def find(model: onnx.ModelProto) -> list[Finding]:
    return list(check_model(model).findings)


def check_and_record(model: onnx.ModelProto) -> tuple[ModelReport, list[list[ShapeQuery]]]:
    """Returns the report and the queries of each call."""
    calls: list[list[ShapeQuery]] = []

    def ask(queries: Sequence[ShapeQuery]) -> list[InferredShape | ReshapeError]:
        calls.append([*queries])
        return infer_locally(queries)

    return check_model(model, ask=ask), calls


# Attention as torch exports it: each target is computed from the shape of the input.
ATTENTION = parse(
    """
    s = Shape(x) zero = Constant<value_int=0>() one = Constant<value_int=1>() axes = Constant<value_ints=[0]>()
    n = Gather(s, zero) l = Gather(s, one) n1 = Unsqueeze(n, axes) l1 = Unsqueeze(l, axes)
    heads = Constant<value_ints=[12]>() rest = Constant<value_ints=[-1]>()
    t1 = Concat<axis=0>(n1, l1, heads, rest)
    h = Reshape(x, t1)
    p = Transpose<perm=[0,2,1,3]>(h)
    t2 = Constant<value_ints=[0,12,-1]>()
    y = Reshape(p, t2)
    """
)


def test_computed_reshape_targets_resolve_dims_unknown_to_onnx():
    findings = find(ATTENTION)
    assert list(map(str, findings)) == [
        "h: [N, S, 768] under [N, S, 12, -1] is [N, S, 12, 64]",
        "y: [N, 12, S, 64] under [0, 12, -1] is [N, 12, 64*S]",
    ]
    assert {finding.verdict for finding in findings} == {Verdict.CLOSED}
    assert len({finding.node.key for finding in findings}) == 2


def test_inferred_reshape_shape_is_used_for_later_nodes():
    # onnx does not know h or the MatMul after it. The last node is known only if h is.
    nodes = """
    t = Identity(given) h = Reshape(x, t) m = MatMul(h, w)
    s = Constant<value_ints=[-1]>() y = Reshape(m, s)"""
    model = parse(nodes, "float[N,4] x", constants="<int64[2] given = {0,4}, float[4,2] w = {1,1,1,1,1,1,1,1}>")
    assert str(find(model)[-1].answer) == "[2*N]"


def test_reshape_input_shape_comes_from_an_earlier_reshape():
    first = "s = Constant<value_ints=[0,-1]>() h = Reshape(x, s) r = Relu(h)"
    nodes = f"{first} t = Constant<value_ints=[-1]>() y = Reshape(r, t)"
    report, calls = check_and_record(parse(nodes))
    assert (calls[0][1].data_from, calls[0][1].data_shape) == (0, None)
    assert str(report.findings[1].answer) == "[768*N*S]"


# the declared shape of the output [2, 6]; a part of the disagreement, or empty if both can be right
DECLARED = {
    "float[2,5] y": "dimension 1 is 5",
    "float[2,6,1] y": "of rank 3",
    "float[N,7] y": "dimension 1 is 7",
    **dict.fromkeys(("float[2,6] y", "float[N,M] y", "float[?,6] y", "float[] y"), ""),
}


def test_wrong_declared_reshape_output_shape_is_reported():
    for declared, text in DECLARED.items():
        report = check_model(parse("s = Constant<value_ints=[0,-1]>() y = Reshape(x, s)", "float[2,3,2] x", declared))
        (finding,) = report.findings
        assert finding.verdict is (Verdict.DISAGREES if text else Verdict.KNOWN), declared
        assert (text in "".join(finding.disagreements), report.is_good) == (True, not text), declared
        assert bool(finding.disagreements) == bool(text), declared


def test_many_reshape_nodes_are_checked_in_several_calls():
    count = MAX_CALL_QUERIES + 5
    nodes = [helper.make_node("Reshape", [f"t{number}", "s"], [f"t{number + 1}"]) for number in range(count)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info(f"t{count}", TensorProto.FLOAT, None)],
        [helper.make_tensor("s", TensorProto.INT64, [2], [4, -1])],
    )
    report, calls = check_and_record(helper.make_model(graph))
    assert max(map(len, calls)) == MAX_CALL_QUERIES
    assert {str(finding.answer) for finding in report.findings} == {"[4, N]"}


def test_model_check_stops_when_nothing_improves():
    for model, sizes in (
        (parse("y = Reshape(x, s)", "float[N,4] x, int64[2] s"), [1, 1]),
        (parse("s = Constant<value_ints=[0,-1]>() y = Reshape(x, s)"), [1]),
    ):
        _, calls = check_and_record(model)
        assert [*map(len, calls)] == sizes


def test_inferred_shapes_are_written_to_a_copy_of_the_model():
    report, annotated = annotate_model(ATTENTION)
    assert report.to_json() == check_model(ATTENTION).to_json()
    shapes = {info.name: [dim.dim_value or dim.dim_param for dim in info.type.tensor_type.shape.dim]
              for info in (*annotated.graph.value_info, *annotated.graph.output)}  # fmt: skip
    assert shapes["h"] == ["N", "S", 12, 64]
    onnx.checker.check_model(annotated)
    assert ATTENTION.SerializeToString() != annotated.SerializeToString()
    assert check_model(annotated).count(Verdict.DISAGREES) == check_model(ATTENTION).count(Verdict.DISAGREES)


# the nodes that compute a target, and the known output shape
TARGETS: dict[str, str] = {
    "t = Concat<axis=0>(n, minus)": "[N, 768*S]",  # a dim that is copied if it is 0
    "p = Mul(n, s1) t = Concat<axis=0>(p, width)": "[N*S, 768]",  # 0 only if the node fails
    "t = Concat<axis=0>(s1, n, width)": "[S, N, 768]",
    "t = Concat<axis=0>(s1, minus)": "[1.., ?]",  # a dim that would copy another
    "h = Div(n, two) t = Concat<axis=0>(h, minus)": "[1.., ?]",  # half of a dim of 1 is 0
    "h = Add(s1, two) t = Concat<axis=0>(h, minus)": "[S + 2, N*S*768/(S + 2)]",  # more than 0
}


def make_computed(nodes: str, last: str = "y = Reshape(x, t)") -> onnx.ModelProto:
    head = "s = Shape(x) n = Slice(s, zero, one) s1 = Slice(s, one, two)"
    constants = (
        "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] width = {768}, int64[1] minus = {-1}>"
    )
    return parse(f"{head} {nodes} {last}", constants=constants)


def test_target_item_that_may_be_zero_gives_an_unknown_dim():
    for nodes, shape in TARGETS.items():
        (finding,) = find(make_computed(nodes))
        assert str(finding.answer).replace("768*N*S", "N*S*768") == shape
        assert bool(finding.copies) == ("?" in shape), nodes
    (finding,) = find(make_computed("t = Concat<axis=0>(s1, minus)", "y = Reshape<allowzero=1>(x, t)"))
    assert str(finding.answer) == "[S, 768*N]"


def test_onnx_shapes_derived_from_possibly_zero_items_are_ignored():
    nodes = "t = Concat<axis=0>(s1, minus) h = Reshape(x, t) r = Relu(h) e = Transpose<perm=[1,0]>(r) two0 = Shape(e)"
    findings = find(make_computed(nodes, "y = Reshape<allowzero=1>(h, two0)"))
    inferred = findings[0].inferred
    assert inferred is not None
    assert str(inferred[0]) == "S"
    assert [str(dim) for dim in findings[1].answer] == ["h_dim_1", "h_dim_0"]  # type: ignore[union-attr] # the answer is a shape


def test_symbolic_dim_products_propagate_through_other_onnx_nodes():
    nodes = "h = Reshape(x, minus) a = Add(h, h) t = Concat<axis=0>(minus, two)"
    assert str(find(make_computed(nodes, "y = Reshape(a, t)"))[1].answer) == "[384*N*S, 2]"


def test_answers_reach_the_last_of_twenty_nodes_that_onnx_does_not_know():
    nodes, data = "heads = Constant<value_ints=[0, -1, 12, 64]>() joined = Constant<value_ints=[0, -1, 768]>() ", "x"
    for turn in range(20):
        target = "joined" if turn % 2 else "heads"
        nodes += f"r{turn} = Reshape({data}, {target}) c{turn} = Concat<axis=0>(r{turn}, r{turn}) "
        data = f"c{turn}"
    findings = find(parse(nodes, outputs=f"float[] {data}"))
    assert [str(one.answer) for one in findings[-2:]] == ["[262144*N, S, 12, 64]", "[524288*N, S, 768]"]


SIZES = st.integers(0, 4)
ITEMS = ["n1", "m1", "k1", "nm", "rest", "copy", "sum", "half"]


@examples(150)
@given(SIZES, SIZES, SIZES, st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4), st.booleans())
def test_annotated_shapes_match_the_onnx_reference_evaluator(n: int, m: int, k: int, items: list[str], is_twice: bool):
    """Checks targets of any items with any values of the named dims."""
    last = "z = Reshape(x, t) back = Shape(z) y = Reshape(x, back)" if is_twice else "y = Reshape(x, t)"
    model = parse(
        f"""
        s = Shape(x) n1 = Slice(s, i0, i1) m1 = Slice(s, i1, i2) k1 = Slice(s, i2, i3)
        nm = Mul(n1, m1) sum = Add(n1, m1) half = Div(nm, i2) rest = Identity(minus) copy = Identity(i0)
        t = Concat<axis=0>({", ".join(items)}) {last}
        """,
        "float[N,M,K] x",
        constants="<int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i3 = {3}, int64[1] minus = {-1}>",
    )
    report, annotated = annotate_model(model, probe_seconds=0.1)  # little time, because there are 150 models
    try:
        evaluator = ReferenceEvaluator(model)
        results: Any = evaluator.run(None, {"x": np.zeros((n, m, k), np.float32)}, intermediate=True)
    except (IndexError, ValueError, RuntimeError):
        return  # this instance is rejected, but others may be accepted
    written = {
        info.name: info.type.tensor_type.shape.dim for info in (*annotated.graph.value_info, *annotated.graph.output)
    }
    for finding in report.findings:
        shape = results[finding.node.output].shape
        assert not isinstance(finding.answer, ReshapeError), (str(finding), shape)
        bounds = [find_bounds(dim) for dim in finding.answer]
        assert [bound.holds(size) for bound, size in zip(bounds, shape, strict=True)] == [True] * len(shape)
        dims = written[finding.node.output]
        known = [evaluate(dim, {"N": n, "M": m, "K": k}, size) for dim, size in zip(dims, shape, strict=True)]
        assert known == list(shape), str(finding)


def evaluate(dim: onnx.TensorShapeProto.Dimension, sizes: dict[str, int], default: int) -> int | Fraction:
    """Returns the value of a written dim for values of the names; the default if the dim is unknown."""
    if not dim.dim_param:
        return dim.dim_value if dim.HasField("dim_value") else default
    product = read_product(dim.dim_param)
    assert product is not None
    above, below = (prod(find_size(name, sizes) for name in names) for names in (product.factors, product.divisors))
    return Fraction(product.coefficient * above, product.divisor * below)


def find_size(name: str, sizes: dict[str, int]) -> int:
    """Returns the size of a name, which may be a formula."""
    formula = read_formula(name)
    size = sizes.get(name) if formula is None else compute(formula, sizes)
    assert size is not None
    return size
