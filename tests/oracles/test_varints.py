"""What looks at the numbers of a message finds those that some reader does not take."""

from google.protobuf.message import Message

from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tests.oracles.varints import find_unreadable

Response, Dim, Tensor = reshape_pb2.ReshapeResponse, tensor_pb2.Dim, tensor_pb2.Tensor

READABLE: list[tuple[type[Message], str]] = [
    (Response, ""),
    (Response, "7a26 080e 1208 0283808080808000 7a18" + "00" * 24),
    (Response, "7a888000 080e 7a04 00000000"),
    (Response, "7a8880808000 080e 7a04 00000000"),
    (Tensor, "10ffffffffffffffffff01"),
    (Tensor, "10838080808080808000"),
    (Dim, "1a03 0a014e"),
    (Dim, "1208 08828000 10838000"),
]
UNREADABLE: list[tuple[type[Message], str, str]] = [
    (Response, "7a25 088e8080808000 12020203 7a18" + "00" * 24, "ReshapeResponse.output.data_type: 14 takes 6 bytes"),
    (Response, "7a808080808000", "output: a length takes 6 bytes"),
    (Response, "fa00 00", "fa00 is no tag of its fields"),
    (Response, "0a00", "0a is no tag of its fields"),
    (Response, "7a05 080e", "its last field ends 3 bytes behind it"),
    (Tensor, "088e00", "data_type: 14 takes 2 bytes"),
    (Tensor, "1083808080808080808000", "dims: 3 takes 10 bytes"),
    (Tensor, "10a7b3de929ec28987c700", "dims: 5120071684620523943 takes 10 bytes"),
    (Tensor, "108380808080808080808000", "dims: 3 takes 11 bytes"),
    (Tensor, "120b 8380808080808080808000", "dims: 3 takes 11 bytes"),
    (reshape_pb2.InferShapeRequest, "308100", "explain: 1 takes 2 bytes"),
    (reshape_pb2.BatchInferShapeItem, "108100", "data_from: 1 takes 2 bytes"),
]


def test_numbers_that_every_reader_takes_are_right():
    assert {raw: find_unreadable(kind, bytes.fromhex(raw)) for kind, raw in READABLE} == {
        raw: [] for _, raw in READABLE
    }


def test_numbers_that_some_reader_does_not_take_are_found():
    for kind, raw, finding in UNREADABLE:
        (found,) = find_unreadable(kind, bytes.fromhex(raw))
        assert finding in found, raw
