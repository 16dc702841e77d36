"""Sizes that a check tries by itself, and what follows from them.

The lines of `checks.txt` up to a line of dashes are about the probes of a model.
"""

from typing import Any

import pytest
from onnx import parser

from model_tables import ModelRow, read_models
from tensor_reshape.onnx import ModelReport, ModelVerdict, Verdict, check_model, checks, probes
from tensor_reshape.onnx.dim_params import DimParams
from tensor_reshape.onnx.models import ModelSource, expand_model

HEAD = '<ir_version: 10, opset_import: ["": 21]> '
POOLED = """g (float[b,3,h,w] x) => (float[] y) {
    m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) s = Constant<value_ints=[0,147]>() y = Reshape(m, s)
}"""
CACHE = """g (float[past,4] p, float[length,4] n, float[total] mask) => (float[] y) {
    c = Concat<axis=0>(p, n) a = Constant<value_ints=[1]>() column = Unsqueeze(mask, a) k = Add(c, column)
    t = Constant<value_ints=[-1,2,2]>() y = Reshape(k, t)
}"""
FIRST = "g (float[{dims}] x) => (float[] y) {{ s = Constant<value_ints=[{items}]>() y = Reshape(x, s) }}"


def check(text: str, seconds: float = 5.0) -> ModelReport:
    return check_model(parser.parse_model(HEAD + text), probe_seconds=seconds)


def reshape(dims: str, items: str) -> ModelReport:
    return check(FIRST.format(dims=dims, items=items))


def test_node_that_rejects_sizes_without_a_condition_is_a_finding():
    """The rules do not know the remainder, so they know no condition."""
    report = check(
        """g (float[n,5] x) => (float[] y) {
            d = Shape<start=0,end=1>(x) three = Constant<value_ints=[3]>() one = Constant<value_ints=[1]>()
            m = Mod(d, three) p = Add(m, one) r = Constant<value_ints=[-1]>() s = Concat<axis=0>(p, r)
            y = Reshape(x, s)
        }"""
    )
    assert (report.verdict, report.requirements) == (ModelVerdict.RESTRICTED, ())
    assert str(report.failed_probes[0]).startswith("y fails for n=1: [1, 5] under [2, -1] rejected: shape[1] is -1: 5 ")


def test_condition_of_an_input_with_a_default_explains_no_rejection():
    """Probes give such an input no sizes."""
    report = check(
        """g (float[n,5] x, float[k] w) => (float[] y, float[] z) <float[4] w = {1, 2, 3, 4}> {
            d = Shape<start=0,end=1>(x) three = Constant<value_ints=[3]>() one = Constant<value_ints=[1]>()
            m = Mod(d, three) p = Add(m, one) r = Constant<value_ints=[-1]>() s = Concat<axis=0>(p, r)
            t = Constant<value_ints=[-1, 2]>() y = Reshape(x, s) z = Reshape(w, t)
        }"""
    )
    assert [str(one.condition) for one in report.requirements] == ["2 divides k"]
    assert [one.label for one in report.failed_probes] == ["y"]


def test_model_is_probed_once_if_no_probe_confirms_its_formulas(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []

    def probe_and_count(*arguments: Any) -> probes.Probes:
        calls.append(1)
        return probes.probe(*arguments)

    monkeypatch.setattr(checks, "probe", probe_and_count)
    report = check(POOLED.replace("}", " t = Constant<value_ints=[0,150]>() z = Reshape(m, t) }"))
    assert (report.base, len(calls)) == (None, 1)
    assert "floor" not in str(report.findings[0])


def test_base_point_satisfies_a_condition_with_formulas():
    report = check(POOLED)
    assert report.base is not None
    assert (report.base["h"] // 2) * (report.base["w"] // 2) == 49


def test_model_without_dynamic_dims_is_rejected_if_its_only_sizes_are():
    """onnx's inference does not know the end of the Slice, so no symbolic answer shows the failure."""
    text = """g (float[1,7,3072] x) => (float[] y) {
        i = Constant<value_int=2>() two = Constant<value_int=2>() three = Constant<value_int=3>()
        d = Shape(x) n = Gather(d, i) p = Add(n, two) q = Div(p, three)
        z = Constant<value_ints=[0]>() a = Constant<value_ints=[2]>() e = Unsqueeze(q, z) c = Slice(x, z, e, a)
        s = Constant<value_ints=[1,7,16,60]>() y = Reshape(c, s)
    }"""
    report = check(text)
    assert report.verdict is ModelVerdict.REJECTED
    assert "[1, 7, 1024]" in str(report.findings[0])


def test_dims_that_belong_together_are_no_finding():
    report = check(CACHE)
    assert report.verdict is ModelVerdict.OK
    assert report.remarks == ("needs: length, past, total change together",)


def test_sizes_that_another_node_rejects_are_a_remark():
    text = """g (float[batch,8,4,4] x, float[64,10] w) => (float[] y) {
        s = Constant<value_ints=[2,-1]>() r = Reshape(x, s) y = MatMul(r, w)
    }"""
    report = check(text)
    assert report.verdict is ModelVerdict.OK
    assert report.remarks[0] == "needs: MatMul y cannot run with [2, 192], [64, 10] if batch=3"


@pytest.mark.parametrize(("dims", "items"), [("h,w", "16,8"), ("batch,h,w", "0,8,16"), ("a,b,c", "3,5,7")])
def test_base_point_satisfies_conditions_of_several_names(dims: str, items: str):
    report = reshape(dims, items)
    assert (report.verdict, report.undecided) == (ModelVerdict.FROZEN, ())
    assert report.base is not None


def test_declared_products_and_sums_of_names_hold_in_every_probe():
    text = """g (float[n] x, float[m] z, float[k] w) => (float[] y) {
        c = Concat<axis=0>(x, w) s = Constant<value_ints=[3,-1]>() y = Reshape(c, s)
    }"""
    model = parser.parse_model(HEAD + text)
    for given, param in zip(model.graph.input, ("n", "n + 3", "2*n"), strict=True):
        given.type.tensor_type.shape.dim[0].dim_param = param
    report = check_model(model)
    assert report.verdict is ModelVerdict.OK
    assert set(report.base or ()) == {"n"}


def test_model_without_accepted_sizes_is_undecided_and_says_why():
    text = """g (float[n,5] x, float[4,2] w) => (float[] y) {
        m = MatMul(x, w) s = Constant<value_ints=[0,-1]>() y = Reshape(m, s)
    }"""
    report = check(text)
    assert report.verdict is ModelVerdict.UNDECIDED
    assert report.undecided[0].endswith("MatMul m cannot run with [2, 5], [4, 2]")


def test_time_for_probes_that_is_over_leaves_the_model_undecided():
    report = check(POOLED, seconds=1e-9)
    assert (report.verdict, report.base) == (ModelVerdict.UNDECIDED, None)


def test_input_without_a_rank_leaves_the_model_undecided():
    report = check("g (float[] x) => (float[] y) { s = Constant<value_ints=[-1,4]>() y = Reshape(x, s) }")
    assert report.undecided[0] == "the input x has no declared rank"


def slice_to(end: int, items: str, start: int = 0) -> ModelReport:
    return check(
        f"""g (float[b,h] x) => (float[] y) <int64[1] st = {{{start}}}, int64[1] en = {{{end}}}, int64[1] ax = {{1}}> {{
            c = Slice(x, st, en, ax) s = Constant<value_ints=[{items}]>() y = Reshape(c, s)
        }}"""
    )


def test_formula_that_a_probe_contradicts_is_not_used():
    """A slice up to 100 of a shorter dim has fewer elements."""
    report = slice_to(100, "0,4,-1", start=1)
    assert (report.verdict, report.count(Verdict.REJECTED)) == (ModelVerdict.RESTRICTED, 0)


def test_sizes_that_a_node_rejects_during_the_search_are_a_finding():
    report = slice_to(300, "0,300")
    assert report.base is not None
    assert report.base["h"] >= 300
    assert (report.verdict, len(report.failed_probes)) == (ModelVerdict.RESTRICTED, 1)


def test_sizes_that_violate_a_condition_are_tried_on_purpose():
    """The base point and its neighbours have even products."""
    report = check(
        """g (float[b,h,64] x, float[b,m,64] q) => (float[] y) {
            c = Concat<axis=1>(x, q) s = Constant<value_ints=[-1,128]>() y = Reshape(c, s)
        }"""
    )
    assert [str(one.condition) for one in report.requirements] == ["2 divides b*(h + m)"]


@pytest.mark.parametrize(("items", "size"), [("0,-1,16000", 16000), ("0,3,224,224", 150528)])
def test_base_point_may_have_a_large_size_that_a_condition_names(items: str, size: int):
    report = reshape("b,n", items)
    assert (report.base, report.undecided) == ({"b": 2, "n": size}, ())


@pytest.mark.parametrize("name", ["ceil(h/2)", "h*0.5", "max(h)", "h/7 - 9999", "h**8**8"])
def test_declared_formula_may_be_computed_or_is_a_free_name(name: str):
    report = reshape(f'b,h,"{name}"', "0,0,-1")
    assert (report.verdict, report.undecided) == (ModelVerdict.OK, ())


def test_node_without_an_output_name_causes_no_error():
    model = parser.parse_model(
        HEAD
        + """g (float[b,h] x, float[b,k] q) => (float[] y) {
            c = Add(x, q) s = Constant<value_ints=[0,7]>() y = Reshape(x, s) z = Relu(y)
        }"""
    )
    model.graph.node[2].output[0] = ""
    assert check_model(model).tried > 0


def write(sizes: probes.Sizes) -> str:
    """Returns sizes as text, without those of formulas."""
    return probes.format_sizes({name: size for name, size in sizes.items() if name.isidentifier()})


def describe(found: probes.Probes) -> list[str]:
    rejections = dict.fromkeys(f"{write(one.sizes)} at {one.key[1]}" for one in found.rejections)
    return [
        f"{found.tried} sizes of {' '.join(sorted(found.names)) or 'nothing'}; first {' '.join(found.leading) or '-'}",
        *([f"base {write(found.base) or '-'}"] if found.base is not None else [f"no base: {found.reason}"]),
        f"accepts {', '.join(write(sizes) for sizes, _ in found.accepted)}".strip(),
        f"rejects {', '.join(rejections)}".strip(),
        *(f"needs {text}" for text in found.needs.values()),
        *(f"ties {' '.join(sorted(tie))}" for tie in found.ties),
    ]


@pytest.mark.parametrize("row", read_models("checks.txt"), ids=lambda row: row.name)
def test_probes_of_a_model_are_these_sizes_in_this_order(row: ModelRow):
    names = {dim.dim_param for given in row.model.graph.input for dim in given.type.tensor_type.shape.dim}
    requirements = check_model(row.model, probe_seconds=0).requirements
    found = probes.probe(ModelSource(expand_model(row.model)), DimParams(names - {""}), requirements, seconds=600)
    assert describe(found) == row.lines[: row.lines.index("---")]
