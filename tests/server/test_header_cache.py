"""What is known of earlier requests never changes an answer."""

from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meters import measure_peak
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.server.service.header_cache import MAX_CACHED_HEADER_BYTES, MAX_CACHED_HEADERS, HeaderCache
from tensor_reshape.server.service.methods import LIGHT_BYTES, ReshapeService
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tests.oracles.plain_messages import describe_refusal
from verification.fuzz.inputs import generate

MIB = 1 << 20
OPERATIONS = [STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE]
I32 = tensor_pb2.DATA_TYPE_I32


def build_request(operation: Operation, size: int = 24, **tensor: object) -> bytes:
    """Flattens `size` bytes of f32."""
    fields = {"dims": [size // 4], "data": bytes(size), **tensor}
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, **fields)  # type: ignore[arg-type]
    if operation is STATIC_RESHAPE:
        return reshape_pb2.StaticReshapeRequest(shape=[-1], special_zero=False, data=data).SerializeToString()
    shape = tensor_pb2.Tensor(data_type=I32, dims=[1], data=b"\xff" * 4)
    return reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data).SerializeToString()


def execute(service: ReshapeService, operation: Operation, request: bytes) -> object:
    try:
        return service.execute(operation, request)
    except ReshapeError as error:
        return *describe_refusal(error), error.message


def vary(random: Random, raw: bytes) -> bytes:
    """Keeps the header and changes what follows: longer, shorter, other bytes, none; or changes a byte anywhere."""
    kind = random.randint(0, 5)
    if kind == 0:
        return raw + bytes(random.randint(1, 9))
    if kind == 1:
        return raw[: random.randint(0, len(raw))]
    if kind == 2:
        return raw + raw
    if kind == 3 and raw:
        at = random.randint(0, len(raw) - 1)
        return raw[:at] + bytes([raw[at] ^ 1 << random.randint(0, 7)]) + raw[at + 1 :]
    if kind == 4:
        return raw[:-1] + b"x"
    return raw


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64 - 1), st.sampled_from(OPERATIONS))
def test_a_service_that_has_answered_much_answers_as_a_fresh_one(seed: int, operation: Operation):
    random, limits = Random(seed), Limits()
    used = ReshapeService(limits)
    requests = [build_request(operation, size) for size in (0, 4, 24, 400)]
    requests += [one.raw for one in islice(generate(random), 60) if one.kind == operation.name]
    for _ in range(30):
        request = random.choice(requests)
        if random.random() < 0.6:
            request = vary(random, request)
            requests.append(request)
        assert execute(used, operation, request) == execute(ReshapeService(limits), operation, request)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_cut_and_every_changed_byte_of_a_known_request_is_read_anew(operation: Operation):
    used, request = ReshapeService(Limits()), build_request(operation)
    variants = [request[:size] for size in range(len(request))]
    variants += [request[:at] + bytes([request[at] ^ 0xFF]) + request[at + 1 :] for at in range(len(request))]
    for variant in variants:
        execute(used, operation, request)
        assert execute(used, operation, variant) == execute(ReshapeService(Limits()), operation, variant)


def test_what_one_operation_knows_is_no_other_operations():
    service = ReshapeService(Limits())
    request = build_request(RESHAPE)
    i64 = reshape_pb2.ReshapeRequest.FromString(request)
    i64.shape.CopyFrom(tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I64, dims=[1], data=b"\xff" * 8))
    raw = i64.SerializeToString()
    assert isinstance(execute(service, RESHAPE, raw), bytes)
    assert execute(service, DYNAMIC_RESHAPE, raw) == execute(ReshapeService(Limits()), DYNAMIC_RESHAPE, raw)


@pytest.mark.parametrize("strides", [[1], [0]])
def test_a_request_with_strides_is_always_read(strides: list[int]):
    service = ReshapeService(Limits())
    size = 24 if strides == [1] else 4
    request = build_request(STATIC_RESHAPE, strides=strides, dims=[6], data=bytes(range(size)))
    assert service.execute(STATIC_RESHAPE, request) == service.execute(STATIC_RESHAPE, request)
    output = reshape_pb2.StaticReshapeResponse.FromString(service.execute(STATIC_RESHAPE, request)).output
    assert output.data == (bytes(range(24)) if strides == [1] else bytes(range(4)) * 6)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("size", [0, 4, LIGHT_BYTES // 2, 2 * LIGHT_BYTES])
def test_a_light_answer_is_the_same_or_none(operation: Operation, size: int):
    service, request = ReshapeService(Limits()), build_request(operation, size)
    light = service.execute_light(operation, request)
    assert light == (None if size > LIGHT_BYTES else service.execute(operation, request))


def test_a_small_request_for_a_large_output_has_no_light_answer():
    request = build_request(STATIC_RESHAPE, dims=[LIGHT_BYTES], strides=[0], data=bytes(4))
    assert ReshapeService(Limits()).execute_light(STATIC_RESHAPE, request) is None


def test_a_known_header_is_found_where_the_last_one_ended():
    headers = HeaderCache()
    headers.add(b"headdata", 4, b"answer")
    found = headers.find_at(b"headDATA", 4)
    assert (found, headers.find(b"head1234")) == ((8, 4, b"answer"), found)


@pytest.mark.parametrize("request_", [b"headdat", b"headdatas", b"heapdata", b"head", b"", b"hea"])
def test_another_header_or_another_length_is_not_known(request_: bytes):
    headers = HeaderCache()
    headers.add(b"headdata", 4, b"answer")
    assert (headers.find_at(request_, 4), headers.find(request_)) == (None, None)


@pytest.mark.parametrize(("start", "kept"), [(MAX_CACHED_HEADER_BYTES, True), (MAX_CACHED_HEADER_BYTES + 1, False)])
def test_a_large_header_is_not_kept(start: int, kept: bool):
    headers, request = HeaderCache(), bytes(600)
    headers.add(request, start, b"answer")
    assert (headers.find_at(request, start) is not None) == kept


def test_the_headers_that_are_kept_take_bounded_memory():
    headers = HeaderCache()

    def flood() -> None:
        for number in range(20 * MAX_CACHED_HEADERS):
            headers.add(number.to_bytes(MAX_CACHED_HEADER_BYTES, "little"), MAX_CACHED_HEADER_BYTES, bytes(64))

    flood()
    assert measure_peak(flood) < 2 * MIB


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_dense_request_is_copied_once(operation: Operation, known: bool):
    service = ReshapeService(Limits(max_output_bytes=32 * MIB))
    request = build_request(operation, 16 * MIB)
    service.execute(operation, request if known else build_request(operation, 8))
    assert 16 * MIB < measure_peak(lambda: service.execute(operation, request)) < 16 * MIB + 64 * 1024
