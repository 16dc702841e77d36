"""Responses are written as the generated class would write them, and read by it."""

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.models import MODELS
from tensor_reshape.server.oip.regions import Place
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.server.oip.responses import encode_error, encode_header, encode_id, wrap_response
from tensor_reshape.wire.tensors import TensorView

OUTPUT = TensorView(DataType.BF16, (2, 0, 2**62), None, memoryview(b"12345"))
RESPONSE, STREAMED = find_class("ModelInferResponse"), find_class("ModelStreamInferResponse")


def build_call(place: Place | None = None) -> InferCall:
    return InferCall("seven", MODELS["reshape"], RESHAPE, OUTPUT, [], True, False, None, place)


def test_id_header_and_elements_are_the_message():
    raw = encode_id("seven") + encode_header(build_call(), OUTPUT) + b"12345"
    assert RESPONSE.FromString(raw) == RESPONSE(
        model_name="reshape",
        model_version="1",
        id="seven",
        outputs=[{"name": "output", "datatype": "BF16", "shape": [2, 0, 2**62]}],
        raw_output_contents=[b"12345"],
    )
    assert encode_id("") == b""


def test_output_in_a_region_has_its_place_and_an_empty_entry():
    response: InferMessage = RESPONSE.FromString(encode_header(build_call(Place("mine", 8, 100)), OUTPUT))
    told = {name: parameter.ListFields()[0][1] for name, parameter in response.outputs[0].parameters.items()}
    assert told == {"shared_memory_region": "mine", "shared_memory_byte_size": 5, "shared_memory_offset": 8}
    assert list(response.raw_output_contents) == [b""]


def test_answer_of_a_stream_has_the_whole_response():
    pieces = (encode_header(build_call(), OUTPUT), memoryview(b"12345"))
    response: InferMessage = STREAMED.FromString(wrap_response(pieces))
    assert response.infer_response == RESPONSE.FromString(b"".join(pieces))
    assert response.error_message == ""


def test_refusal_of_a_stream_has_its_text_id_and_reason():
    response: InferMessage = STREAMED.FromString(encode_error("no", "NOT_DIVISIBLE", "seven"))
    assert (response.error_message, response.infer_response.id) == ("no", "seven")
    assert response.infer_response.parameters["reason"].string_param == "NOT_DIVISIBLE"
