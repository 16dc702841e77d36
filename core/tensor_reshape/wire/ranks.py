"""The rank of an answer, read from how it begins: for those who tell of calls, and have no more of an answer.

Law: nothing here is ever wrong, and nothing raises. What is not understood, or is not there whole, has no rank.
"""

from tensor_reshape.wire.fields import PAYLOAD_TAG, read_field

_PAYLOAD = PAYLOAD_TAG[0]
_DIMS = 0x12  # field 2 of a Tensor, packed
_OUTPUT = 0x0A  # field 1 of a StreamReshapeResponse, and of an InferShapeResponse
_DIM = 0x0A  # field 1 of a Shape, once for each dim
_CONTINUATION = 0x80


def find_output_rank(answer: bytes) -> int | None:
    """Returns the rank of the tensor in the answer of an operation, which is field 15."""
    return _find_tensor_rank(answer, _PAYLOAD)


def find_stream_rank(answer: bytes) -> int | None:
    """Returns the rank of the tensor that the first answer of a stream accepts."""
    return _find_tensor_rank(answer, _OUTPUT)


def find_inferred_rank(answer: bytes) -> int | None:
    """Returns the rank of an inferred shape; None where it is unknown as well."""
    shape = read_field(answer, 0)
    if shape is None or shape[0] != _OUTPUT or shape[2] > len(answer):
        return None
    return sum(tag == _DIM for tag, _, _ in _list_fields(answer, shape[1], shape[2]))


def _find_tensor_rank(answer: bytes, tag: int) -> int | None:
    tensor = read_field(answer, 0)
    if tensor is None or tensor[0] != tag:
        return None
    rank = 0
    position, end = tensor[1], min(tensor[2], len(answer))
    for field, start, after in _list_fields(answer, position, end):
        if field == _PAYLOAD:
            return rank
        if field == _DIMS:
            rank += sum(byte < _CONTINUATION for byte in answer[start:after])
        position = after
    return rank if position == tensor[2] else None


def _list_fields(message: bytes, position: int, end: int) -> list[tuple[int, int, int]]:
    """Returns the fields from `position` on; a payload may go on behind `end`, of what is not whole there is none."""
    fields = []
    while position < end:
        field = read_field(message, position)
        if field is None or (field[2] > end and field[0] != _PAYLOAD):
            break
        fields.append(field)
        position = field[2]
    return fields
