"""Responses have the same bytes as those of the generated class, which can parse them."""

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.server.oip.inferences import encode_header, encode_id
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.oip.models import MODELS
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.wire.tensors import TensorView

OUTPUT = TensorView(DataType.BF16, (2, 0, 2**62), None, memoryview(b"12345"))
RESPONSE = find_class("ModelInferResponse")


def test_inference_response_parts_join_to_a_valid_message():
    call = InferCall("seven", MODELS["reshape"], RESHAPE, OUTPUT, "inputs[0]", [], True, False, None)
    raw = encode_id("seven") + encode_header(call, OUTPUT) + b"12345"
    assert RESPONSE.FromString(raw) == RESPONSE(
        model_name="reshape",
        model_version="1",
        id="seven",
        outputs=[{"name": "output", "datatype": "BF16", "shape": [2, 0, 2**62]}],
        raw_output_contents=[b"12345"],
    )
    assert encode_id("") == b""
