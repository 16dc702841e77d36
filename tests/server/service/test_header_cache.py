"""The cache of earlier requests never changes a response."""

from collections.abc import Callable
from functools import partial

import pytest

from meters import measure_peak
from plain_requests import build_reshape
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.server.service.backend import import_gather
from tensor_reshape.server.service.header_cache import MAX_CACHE_BYTES, MAX_CACHED_HEADER_BYTES, HeaderCache
from tensor_reshape.server.service.methods import LIGHT_BYTES, ReshapeService
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import encode_shape
from tests.oracles.plain_messages import describe_rejection

KIB, MIB = 1 << 10, 1 << 20
OPERATIONS = [STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE]
I32 = tensor_pb2.DATA_TYPE_I32


def build_request(operation: Operation, size: int = 24, **tensor: object) -> bytes:
    """Returns a request that flattens `size` bytes of f32."""
    fields = {"dims": [size // 4], "data": bytes(size), **tensor}
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, **fields)  # type: ignore[arg-type]
    if operation is STATIC_RESHAPE:
        target = reshape_pb2.TargetShape(items=[-1])
        return reshape_pb2.StaticReshapeRequest(shape=target, special_zero=False, data=data).SerializeToString()
    shape = tensor_pb2.Tensor(data_type=I32, dims=[1], data=b"\xff" * 4)
    return reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data).SerializeToString()


def execute(service: ReshapeService, operation: Operation, request: bytes) -> object:
    try:
        return service.execute(operation, request)
    except ReshapeError as error:
        return *describe_rejection(error), error.message


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_header_cache_misses_for_truncated_or_changed_requests(operation: Operation):
    used, request = ReshapeService(Limits()), build_request(operation)
    variants = [request[:size] for size in range(len(request))]
    variants += [request[:at] + bytes([request[at] ^ 0xFF]) + request[at + 1 :] for at in range(len(request))]
    for variant in variants:
        execute(used, operation, request)
        assert execute(used, operation, variant) == execute(ReshapeService(Limits()), operation, variant)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_small_request_has_equal_results_on_receiving_and_worker_threads(operation: Operation):
    for size in (0, 4, LIGHT_BYTES // 2, 2 * LIGHT_BYTES):
        service, request = ReshapeService(Limits()), build_request(operation, size)
        light = service.execute_light(operation, request)
        assert light == (None if size > LIGHT_BYTES else service.execute(operation, request)), size
    broadcast = build_request(STATIC_RESHAPE, dims=[LIGHT_BYTES], strides=[0], data=bytes(4))
    assert ReshapeService(Limits()).execute_light(STATIC_RESHAPE, broadcast) is None


def test_search_for_an_expected_product_does_not_run_on_the_receiving_thread():
    request = reshape_pb2.StaticReshapeRequest.FromString(build_request(STATIC_RESHAPE))
    request.expected_shape.CopyFrom(encode_shape([parse_dim("2*N")]))
    raw = request.SerializeToString()
    assert ReshapeService(Limits()).execute_light(STATIC_RESHAPE, raw) is None
    assert isinstance(execute(ReshapeService(Limits()), STATIC_RESHAPE, raw), bytes)


def test_header_cache_key_is_header_bytes_and_message_length():
    headers = HeaderCache()
    headers.add(b"headdata", 4, b"answer")
    found = headers.find_at(b"headDATA", 4)
    assert (found, headers.find(b"head1234")) == ((8, 4, b"answer"), found)
    for request in (b"headdat", b"headdatas", b"heapdata", b"head", b"", b"hea"):
        headers = HeaderCache()
        headers.add(b"headdata", 4, b"answer")
        assert (headers.find_at(request, 4), headers.find(request)) == (None, None), request


def test_header_cache_memory_is_limited():
    headers = HeaderCache()

    def flood(size: int) -> None:
        for number in range(4 * MAX_CACHE_BYTES // size):
            headers.add(number.to_bytes(size, "little"), size, bytes(64))

    for size in (MAX_CACHED_HEADER_BYTES - 64, 64):
        assert measure_peak(partial(flood, size)) < 11 * MIB, size


@pytest.mark.parametrize(("start", "is_cached"), [(2000, True), (2001, False)])
def test_header_cache_keeps_headers_of_2048_bytes(start: int, is_cached: bool):
    headers, request = HeaderCache(), bytes(start)
    headers.add(request, start, bytes(48))
    assert (headers.find_at(request, start) is not None, headers.find(request) is not None) == (is_cached, is_cached)


def swap_fields(request: bytes) -> bytes:
    """Returns the same StaticReshape request with its shape after its data, which is an unusual order."""
    message = reshape_pb2.StaticReshapeRequest.FromString(request)
    data, rest = reshape_pb2.StaticReshapeRequest(data=message.data), message
    rest.ClearField("data")
    return data.SerializeToString() + rest.SerializeToString()


USUAL = build_request(STATIC_RESHAPE)
COUNTED = {
    "usual": (USUAL, 2),
    "empty": (build_request(STATIC_RESHAPE, 0), 2),
    "unusual": (swap_fields(USUAL), 0),
    "unusual and empty": (swap_fields(build_request(STATIC_RESHAPE, 0)), 2),
    "strided": (build_request(STATIC_RESHAPE, dims=[6], strides=[0], data=bytes(4)), 0),
}


@pytest.mark.parametrize(("request_", "hits"), COUNTED.values(), ids=COUNTED)
def test_header_cache_hits_and_misses_are_counted(request_: bytes, hits: int):
    service = ReshapeService(Limits())
    import_gather()
    for execute_ in (service.execute, service.execute_light, service.execute):
        assert execute_(STATIC_RESHAPE, request_) == ReshapeService(Limits()).execute(STATIC_RESHAPE, request_)
    assert (service.lookups.misses, service.lookups.hits) == (3 - hits, hits)


def fit(build: Callable[[int], bytes], size: int) -> bytes:
    """Returns the message of `size` bytes that `build` makes of a smaller number."""
    return next(raw for raw in map(build, range(size - 64, size)) if len(raw) == size)


def build_swapped(size: int) -> bytes:
    message = reshape_pb2.ReshapeRequest.FromString(build_reshape(size))
    data = reshape_pb2.ReshapeRequest(data=message.data).SerializeToString()
    message.ClearField("data")
    return data + message.SerializeToString()


def build_broadcast(count: int) -> bytes:
    return build_request(STATIC_RESHAPE, dims=[count], strides=[0], data=bytes(4))


@pytest.mark.parametrize(
    ("operation", "largest", "larger"),
    [
        (RESHAPE, fit(build_reshape, 256 * KIB), fit(build_reshape, 256 * KIB + 1)),
        (RESHAPE, fit(build_swapped, KIB), fit(build_swapped, KIB + 1)),
        (STATIC_RESHAPE, build_broadcast(64 * KIB), build_broadcast(64 * KIB + 1)),
    ],
    ids=["usual", "unusual", "strided"],
)
def test_light_request_has_an_exact_size_limit(operation: Operation, largest: bytes, larger: bytes):
    import_gather()
    service = ReshapeService(Limits())
    assert service.execute_light(operation, largest) == service.execute(operation, largest)
    assert service.execute_light(operation, larger) is None


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_dense_reshape_request_is_copied_once(operation: Operation, known: bool):
    service = ReshapeService(Limits(max_output_bytes=32 * MIB))
    request = build_request(operation, 16 * MIB)
    service.execute(operation, request if known else build_request(operation, 8))
    assert 16 * MIB < measure_peak(lambda: service.execute(operation, request)) < 16 * MIB + 64 * 1024
