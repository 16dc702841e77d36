"""The line of the source that made a Reshape node, and the target that its finding proposes."""

import pytest
from onnx import parser

from tensor_reshape.onnx import check_model
from tensor_reshape.onnx.advice import read_stack

FIRST = """<ir_version: 10, opset_import: ["": 21]>
g (float[{dims}] x) => (float[] y) {{ s = Constant<value_ints=[{items}]>() y = Reshape(x, s) }}"""


@pytest.mark.parametrize(
    ("dims", "items", "advice"),
    [
        ("batch,16,4,4", "1,256", "write [0, 256] instead of [1, 256] to keep batch dynamic"),
        ("length,batch,96", "0,2,96", "write [0, 0, 96] instead of [0, 2, 96] to keep batch dynamic"),
        ("batch,64,7,7", "-1,1024", "write [0, -1] instead of [-1, 1024] to keep batch in dim 0"),
        ("batch,length,96", "2,-1,96", "write [0, -1, 96] instead of [2, -1, 96] to keep batch in dim 0"),
        ("batch,length,64", "0,0,5,-1", "write a divisor of 64 instead of 5: 1, 2, 4, 8, 16, 32, 64"),
        ("batch,length,64", "0,0,5,12", "write a divisor of 64 instead of 5: 1, 2, 4, 8, 16, 32, 64"),
        ("2,7,64", "0,0,4,12", "write 16 instead of 12, because 4 * 16 = 64"),
        ("12", "5,-1", "write a divisor of 12 instead of 5: 1, 2, 3, 4, 6, 12"),
        ("2,7,64", "2,7,3,16", "write 4 instead of 3, because 16 * 4 = 64"),
        ("batch,length,c", "0,0,12,-1", ""),
        ("batch,length,96", "-1,3,32", ""),
    ],
)
def test_finding_has_advice_what_to_write(dims: str, items: str, advice: str):
    assert check_model(parser.parse_model(FIRST.format(dims=dims, items=items))).findings[0].advice == advice


def test_node_has_the_line_of_the_source_that_its_exporter_stored():
    model = parser.parse_model(FIRST.format(dims="batch,16,4,4", items="1,256"))
    stack = 'File "/home/me/model.py", line 12, in forward\n    return x.view(1, 256)\n'
    library = 'File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line 1, in _call\n    return f()\n'
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=stack + library)
    (finding,) = check_model(model).findings
    assert finding.origin == "/home/me/model.py:12: return x.view(1, 256)"


def test_stack_without_a_frame_gives_no_line():
    assert read_stack("nothing") == ""
