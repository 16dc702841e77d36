"""The model on the ONNX page is the model whose text is in this file."""

import onnx
from onnx import parser

from documents import ROOT

TEXT = """
    <ir_version: 8, opset_import: ["" : 17]>
    encoder (float[batch, seq, 768] x) => (float[] joined, float[batch, 700] pooled) {
        shape = Shape(x)
        first = Constant<value_ints = [0]>()
        size = Gather(shape, first)
        rest = Constant<value_ints = [-1, 12, 64]>()
        target = Concat<axis = 0>(size, rest)
        heads = Reshape(x, target)
        swapped = Transpose<perm = [0, 2, 1, 3]>(heads)
        rows = Constant<value_ints = [0, 12, -1]>()
        joined = Reshape(swapped, rows)
        largest = ReduceMax<axes = [1], keepdims = 0>(x)
        flat = Constant<value_ints = [0, -1]>()
        pooled = Reshape(largest, flat)
    }
"""


def test_encoder_onnx_file_matches_its_text_source():
    assert onnx.load(ROOT / "examples/encoder.onnx") == parser.parse_model(TEXT)
