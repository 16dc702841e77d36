"""Reads the rank of an output from the first bytes of a response, for tracing.

The functions of this module never raise an error. These functions return None if the bytes are incomplete or have an
unusual encoding.
"""

from tensor_reshape.wire.fields import PAYLOAD_TAG, read_field

_PAYLOAD = PAYLOAD_TAG[0]
_DIMS = 0x12  # this byte is the tag of field 2 of a Tensor, which has packed varints
_OUTPUT = 0x0A  # this byte is the tag of field 1 of a StreamReshapeResponse or of an InferShapeResponse
_SHAPE_DIMS = 0x0A  # this byte is the tag of field 1 of a Shape, which has packed varints
_CONTINUATION = 0x80


def find_output_rank(answer: bytes) -> int | None:
    """Returns the rank of the output in the response of an operation."""
    return _find_tensor_rank(answer, _PAYLOAD)


def find_stream_rank(answer: bytes) -> int | None:
    """Returns the rank of the output in the first response of a stream."""
    return _find_tensor_rank(answer, _OUTPUT)


def find_inferred_rank(answer: bytes) -> int | None:
    """Returns the rank of an inferred shape; None if the rank is unknown."""
    shape = read_field(answer, 0)
    if shape is None or shape[0] != _OUTPUT or shape[2] > len(answer):
        return None
    dims = [answer[start:end] for tag, start, end in _list_fields(answer, *shape[1:]) if tag == _SHAPE_DIMS]
    return sum(map(_count_varints, dims))


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
            rank += _count_varints(answer[start:after])
        position = after
    return rank if position == tensor[2] else None


def _count_varints(packed: bytes) -> int:
    return sum(byte < _CONTINUATION for byte in packed)


def _list_fields(message: bytes, position: int, end: int) -> list[tuple[int, int, int]]:
    """Returns the complete fields from `position` on. Only the field of the payload may extend beyond `end`."""
    fields = []
    while position < end:
        field = read_field(message, position)
        if field is None or (field[2] > end and field[0] != _PAYLOAD):
            break
        fields.append(field)
        position = field[2]
    return fields
