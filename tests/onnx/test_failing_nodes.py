"""The operators of which the interpreter notices that they cannot run, as the page for users lists them."""

import re

import pytest
from onnx import parser

from documents import ROOT
from tensor_reshape.onnx.interpreter import Interpreter
from tensor_reshape.onnx.models import ModelSource, expand_model

HEAD = '<ir_version: 10, opset_import: ["": 23]> '
# A graph in which the operator cannot run. The key is the operator, and what is wrong if not every error is noticed.
NOTICED = {
    "MatMul": "g (float[2,3] x, float[4,5] w) => (float[] y) { y = MatMul(x, w) }",
    "Gemm": "g (float[2,3] x, float[4,5] w) => (float[] y) { y = Gemm(x, w) }",
    "Add": "g (float[2,3] x, float[2,4] w) => (float[] y) { y = Add(x, w) }",
    "Where": "g (bool[2,3] c, float[2,4] x) => (float[] y) { y = Where(c, x, x) }",
    "Concat": "g (float[2,3] x, float[3,4] w) => (float[] y) { y = Concat<axis=0>(x, w) }",
    "Expand": "g (float[2,3] x) => (float[] y) { s = Constant<value_ints=[2,4]>() y = Expand(x, s) }",
    "MaxPool": "g (float[1,1,2,2] x) => (float[] y) { y = MaxPool<kernel_shape=[3,3]>(x) }",
    "AveragePool": "g (float[1,1,2,2] x) => (float[] y) { y = AveragePool<kernel_shape=[3,3]>(x) }",
    "Conv (kernel)": "g (float[1,3,2,2] x, float[8,3,3,3] w) => (float[] y) { y = Conv(x, w) }",
    "Split": "g (float[5] x) => (float[] y, float[] z) { s = Constant<value_ints=[2,2]>() y, z = Split<axis=0>(x, s) }",
    "Transpose": "g (float[2,5] x) => (float[] y) { y = Transpose<perm=[0,1,2]>(x) }",
    "Squeeze": "g (float[2,5] x) => (float[] y) { a = Constant<value_ints=[0]>() y = Squeeze(x, a) }",
    "Unsqueeze": "g (float[2,5] x) => (float[] y) { a = Constant<value_ints=[7]>() y = Unsqueeze(x, a) }",
    "Tile": "g (float[2,5] x) => (float[] y) { a = Constant<value_ints=[7]>() y = Tile(x, a) }",
    "Pad": "g (float[2,5] x) => (float[] y) { a = Constant<value_ints=[0,-4,0,-4]>() y = Pad(x, a) }",
    "Flatten": "g (float[1,5] x) => (float[] y) { y = Flatten<axis=7>(x) }",
    "Softmax": "g (float[4,5] x) => (float[] y) { y = Softmax<axis=4>(x) }",
    "ReduceSum": "g (float[4,5] x) => (float[] y) { a = Constant<value_ints=[4]>() y = ReduceSum(x, a) }",
    "Resize": "g (float[1,1,4,5] x) => (float[] y) { a = Constant<value_ints=[1,1]>() y = Resize(x, , , a) }",
    "Slice": "g (float[4,5] x) => (float[] y) { a = Constant<value_ints=[4]>() y = Slice(x, a, a, a) }",
    "TopK": "g (float[4,5] x) => (float[] y, int64[] i) { a = Constant<value_ints=[9]>() y, i = TopK(x, a) }",
    "BatchNormalization": "g (float[2,5,3] x, float[4] w) => (float[] y) { y = BatchNormalization(x, w, w, w, w) }",
}
MISSED = {
    "Conv (channels)": "g (float[1,4,8,8] x, float[8,3,3,3] w) => (float[] y) { y = Conv(x, w) }",
    "ConvTranspose": "g (float[1,4,8,8] x, float[3,8,3,3] w) => (float[] y) { y = ConvTranspose(x, w) }",
    "LayerNormalization": "g (float[2,5] x, float[4] w) => (float[] y) { y = LayerNormalization(x, w) }",
    "GroupNormalization": "g (float[1,5] x, float[5] w) => (float[] y) { y = GroupNormalization<num_groups=2>(x,w,w) }",
    "LSTM": "g (float[2,5,3] x, float[1,16,7] w, float[1,16,4] r) => (float[] y) { y = LSTM<hidden_size=4>(x, w, r) }",
    "Einsum": 'g (float[2,5] x, float[4,3] w) => (float[] y) { y = Einsum<equation="ij,jk->ik">(x, w) }',
    "Gather": "g (float[2,5] x) => (float[] y) { i = Constant<value_ints=[9]>() y = Gather(x, i) }",
    "DepthToSpace": "g (float[1,5,2,2] x) => (float[] y) { y = DepthToSpace<blocksize=2>(x) }",
    "SpaceToDepth": "g (float[1,5,3,3] x) => (float[] y) { y = SpaceToDepth<blocksize=2>(x) }",
    "ScatterND": "g (float[4,5] x, int64[2,3] i, float[2] u) => (float[] y) { y = ScatterND(x, i, u) }",
    "Attention": "g (float[1,2,4,8] q, float[1,2,4,6] k) => (float[] y) { y = Attention(q, k, k) }",
}


@pytest.mark.parametrize(("operator", "text"), [*NOTICED.items(), *MISSED.items()])
def test_wrong_shapes_of_an_operator_are_noticed_as_the_page_says(operator: str, text: str):
    model = expand_model(parser.parse_model(HEAD + text))
    failed = Interpreter(ModelSource(model)).run({}).failures
    assert bool(failed) == (operator in NOTICED)


def test_page_lists_the_operators_whose_wrong_shapes_are_noticed():
    page = (ROOT / "docs/how-to/check-onnx.md").read_text()
    rows = {
        word: set(re.findall(r"[A-Z]\w+(?: \(\w+\))?", text))
        for word, text in re.findall(r"^\| (noticed|not noticed) \| (.*) \|$", page, re.MULTILINE)
    }
    assert rows == {"noticed": set(NOTICED), "not noticed": set(MISSED)}
