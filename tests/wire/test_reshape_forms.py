"""Whatever the encoding of a request, it is read as the generated class reads it."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from odd_encodings import build_input
from plain_decoding import decode_plainly, describe_call, refuse
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.wire import reshapes


def decode(operation: Operation, raw: bytes) -> tuple[object, ...]:
    try:
        call = reshapes.decode_reshape_request(operation, raw)
    except ReshapeError as error:
        return refuse(error)
    assert call.question.operation is operation
    return describe_call(call)


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 2**64 - 1), st.sampled_from([STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE]))
def test_any_encoding_is_read_as_the_generated_class_reads_it(seed: int, operation: Operation):
    raw = build_input(Random(seed), operation)
    assert decode(operation, raw) == decode_plainly(operation, raw)
