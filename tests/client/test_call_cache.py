"""The caches of calls and queries: equal ones share an entry, and none gets the response of another."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_requests import encode_reshape_response
from tensor_reshape.client import InferredShape, InvalidRequestError, Reason, ReshapeError, ResponseError, call_cache
from tensor_reshape.client.call_cache import find_call, find_query
from tensor_reshape.client.requests import Arguments, InferOptions, PreparedCall, build_infer_shape, plan_reshape
from tensor_reshape.client.transfers import Handover
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_reshape.wire.tensors import TensorView

MANY = 2**20
SIX = np.arange(6, dtype=np.float32)


class Integer(int):
    """A class whose values are equal to ints."""


class Odd(np.ndarray[Any, Any]):
    """A subclass of numpy's array."""


def arguments(
    array: object = SIX,
    shape: object = (2, 3),
    operation: Operation = RESHAPE,
    *,
    special_zero: object = False,
    expected_shape: object = None,
) -> Arguments:
    """Returns arguments of any types."""
    return Arguments(*cast("tuple[Any, ...]", (operation, array, shape, special_zero, expected_shape)))


def read(asked: Arguments) -> object:
    """Returns the request of a plan, or its error."""
    try:
        return plan_reshape(asked).build_inline()[:2]
    except (ReshapeError, TypeError) as error:
        return type(error), str(error)


def find(*given: Any, **fields: Any) -> PreparedCall[Array]:
    call = find_call(arguments(*given, **fields), MANY, {})
    assert call is not None
    return call


def respond(array: Array, dims: Sequence[int], data_type: DataType = DataType.F32) -> bytes:
    return encode_reshape_response(TensorView(data_type, dims, None, memoryview(array.tobytes())))


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch) -> dict[str, RecentCache[Any, Any]]:
    """Replaces the caches by empty ones, which are so small that they drop entries while other threads use them."""
    caches = {name: RecentCache[Any, Any](128 << 10, 32 << 10) for name in ("_cache", "_views", "_queries")}
    for name, cache in caches.items():
        monkeypatch.setattr(call_cache, name, cache)
    return caches


@pytest.fixture
def known(caches: dict[str, RecentCache[Any, Any]]) -> RecentCache[Any, Any]:
    """The cache of calls with elements."""
    return caches["_cache"]


PLAIN = [
    *(
        arguments(SIX.reshape(2, 3), shape, operation, special_zero=True, expected_shape=expected)
        for operation in OPERATIONS.values()
        for shape, expected in product([(2, 3), [2, -1], [0, 3]], [None, [2, None], (2, 3)])
    ),
    *(
        arguments(np.arange(1, 7).astype(dtype), (3, 2))
        for data_type, dtype in DTYPES.items()
        if not data_type.is_packed
    ),
    arguments(np.array(5, np.float32), ()),
]


def test_cached_call_builds_the_same_request_as_an_uncached_call():
    for asked in PLAIN:
        plan = plan_reshape(asked)
        planned, response = plan.build_inline(), respond(plan.array, plan.dims, plan.data_type)
        for _ in range(2):  # the first call fills the cache, and the second one uses it
            call = find_call(asked, MANY, {})
            assert call is not None, asked
            assert call[:2] == planned[:2], asked
            np.testing.assert_array_equal(call.decode(response), planned.decode(response), strict=True)


@pytest.mark.parametrize(
    ("odd", "plain", "data_type"),
    [
        (np.dtype("i1", metadata={"of": "another caller"}), np.dtype(np.int8), DataType.I8),
        (np.dtype(np.longlong), np.dtype(np.int64), DataType.I64),
    ],
    ids=["metadata", "another name in C"],
)
def test_cached_call_returns_the_dtype_of_its_own_input(odd: np.dtype[Any], plain: np.dtype[Any], data_type: DataType):
    response = respond(np.zeros(6, plain), (2, 3), data_type)
    for dtype in (odd, plain, odd):
        output, planned = (
            call.decode(response)
            for call in (find(np.zeros(6, dtype)), plan_reshape(arguments(np.zeros(6, dtype))).build_inline())
        )
        assert (output.dtype.char, output.dtype.metadata) == (planned.dtype.char, planned.dtype.metadata)


def test_cached_call_returns_a_read_only_view_of_the_response():
    output = find().decode(respond(SIX, (2, 3)))
    assert (output.flags.owndata, output.flags.writeable, output.flags.aligned) == (False, False, True)


def test_arrays_of_equal_shape_share_a_call_cache_entry(known: dict[Any, Any]):
    one, other = find(SIX).request, find(SIX + 1).request
    assert (len(known), one[:-24]) == (1, other[:-24])
    assert (one[-24:], other[-24:]) == (SIX.tobytes(), (SIX + 1).tobytes())


OTHERS = [
    arguments(SIX.astype(np.int32)),
    arguments(SIX.reshape(6, 1)),
    arguments(shape=(3, 2)),
    arguments(shape=(6,)),
    arguments(operation=STATIC_RESHAPE),
    arguments(operation=DYNAMIC_RESHAPE),
    arguments(special_zero=True),
    arguments(expected_shape=(2, 3)),
    arguments(expected_shape=(2, None)),
    *(arguments(expected_shape=expected) for expected in (("N", 3), ("M", 3), ("N", "2..4"))),
    *(
        arguments(shape=np.array([2, 3], dtype), operation=operation)
        for operation, dtype in product((RESHAPE, STATIC_RESHAPE), ("<i4", "<i8", ">i8", "u8"))
    ),
]


def test_call_cache_key_includes_every_request_header_field(known: dict[Any, Any]):
    find()
    for count, other in enumerate(OTHERS, start=2):
        for _ in range(2):  # the first call fills the cache, and the second one uses it
            call = find_call(other, MANY, {})
            assert call is not None, other
            assert (len(known), call[:2]) == (count, plan_reshape(other).build_inline()[:2]), other


EQUALS: list[Callable[[int], object]] = [bool, Integer, float, np.bool_]
ODD = [
    arguments([[1.0, 2, 3], [4, 5, 6]]),
    arguments(SIX[::2]),
    arguments(SIX.reshape(2, 3).T),
    arguments(np.broadcast_to(SIX[:1], 6)),
    arguments(SIX.astype(">f4")),
    arguments(SIX.view(Odd)),
    arguments(np.ma.masked_array(SIX)),
    arguments(np.zeros((0, 3), np.float32), (3, 0)),
    arguments(shape=np.array([[2, 3]])),
    arguments(shape=np.zeros((0, 2), np.int64)),
    arguments(shape=np.array(6)),
    arguments(shape=np.array([True, True])),
    arguments(shape=6),
    arguments(shape=range(2, 4)),
    arguments(shape="23"),
    arguments(shape=([2], 3)),
    arguments(special_zero=0),
    arguments(special_zero=np.False_),
    arguments(expected_shape=np.array([2, 3])),
    arguments(expected_shape=((1, 2), 3)),
    arguments(expected_shape=(2, [3])),
    *(arguments(shape=(make(1), 6)) for make in EQUALS),
    *(arguments(shape=(1, 6), expected_shape=(make(1), 6)) for make in EQUALS),
]


def test_call_cache_skips_arguments_of_unusual_types(known: dict[Any, Any]):
    before = [read(odd) for odd in ODD]
    for shape in ((2, 3), (1, 6)):  # most of the values have equal ones of another type
        find(shape=shape)
        find(shape=shape, expected_shape=shape)
    assert [odd for odd in ODD if find_call(odd, MANY, {}) is not None] == []
    assert ([read(odd) for odd in ODD], len(known)) == (before, 4)


def test_call_cache_does_not_store_rejected_shapes(known: dict[Any, Any]):
    for _ in range(2):
        with pytest.raises(InvalidRequestError) as caught:
            find_call(arguments(shape=(4, -1)), MANY, {})
        assert caught.value.reason is Reason.NOT_DIVISIBLE
    with pytest.raises(ReshapeError):
        find_call(arguments(shape=(2**80,)), MANY, {})
    assert known == {}


def test_call_cache_skips_arrays_above_inline_max_bytes():
    assert (find_call(arguments(), 23, {}), find_call(arguments(), 24, {}) is None) == (None, False)
    assert find_call(arguments(), 23, {"transfer": "inline"}) is not None  # the caller has chosen this


def test_changed_shape_list_uses_another_call_cache_entry():
    shape = [2, 3]
    find(shape=shape)
    shape[:] = [3, 2]
    assert find(shape=shape).decode(respond(SIX, (3, 2))).shape == (3, 2)


def test_cached_call_decodes_a_response_with_unknown_fields():
    response = respond(SIX, (2, 3)) + b"\x78\x00"
    np.testing.assert_array_equal(find().decode(response), SIX.reshape(2, 3), strict=True)


def test_numpy_integers_and_ints_share_a_call_cache_entry(known: dict[Any, Any]):
    call = find(shape=(2, 3))
    for kind in (np.int8, np.uint64, np.intp, np.longlong):
        assert find(shape=(kind(2), kind(3)))[:2] == call[:2]
        assert find(shape=(kind(2), 3), expected_shape=(2, kind(3)))[:2] == find(expected_shape=(2, 3))[:2]
    assert len(known) == 2


def test_threads_share_the_call_cache():
    def check(number: int) -> bool:
        array = np.full(number % 90 + 1, number, np.float32)
        output = find(array, (array.size, 1)).decode(respond(array, (array.size, 1)))
        return output.shape == (array.size, 1) and output.tobytes() == array.tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(2000)))


@given(
    dtype=st.sampled_from([np.float32, np.int8, np.dtype(">i2"), ml_dtypes.bfloat16]),
    dims=st.lists(st.integers(0, 3), max_size=4),
    target=st.lists(st.sampled_from([-1, 0, 1, 2, 3, 6, True, np.int64(2)]), max_size=4),
    zero=st.booleans(),
)
def test_cached_and_uncached_calls_are_equal_for_random_arguments(
    dtype: npt.DTypeLike, dims: list[int], target: list[object], *, zero: bool
):
    asked = arguments(np.zeros(dims, dtype), target, special_zero=zero)
    planned = read(asked)
    for _ in range(2):  # the first call fills the cache, and the second one uses it
        try:
            call = find_call(asked, MANY, {})
        except ReshapeError as error:
            assert (type(error), str(error)) == planned  # noqa: PT017 - a rejection is one of two right results
        else:
            assert call is None or call[:2] == planned


def test_output_options_do_not_change_the_call_cache_key(known: dict[Any, Any]):
    out = np.empty((2, 3), np.float32)
    options: list[Handover] = [{}, {"transfer": "inline"}, {"writable": True}, {"out": out}, {"request_id": "a"}]
    for how in options:
        call = find_call(arguments(), MANY, how)
        assert call is not None, how
        output = call.decode(respond(SIX, (2, 3)))
        np.testing.assert_array_equal(output, SIX.reshape(2, 3), strict=True)
        assert output.flags.writeable == ("writable" in how or "out" in how), how
        assert (output is out) == ("out" in how), how
    assert len(known) == 1


def test_call_cache_skips_streams_and_unusual_outputs():
    read_only = np.empty((2, 3), np.float32)
    read_only.flags.writeable = False
    options: list[Handover] = [
        {"transfer": "stream"},
        {"transfer": cast("Any", "unknown")},
        {"transfer": "view", "writable": True},
        {"transfer": "view", "out": np.empty((2, 3), np.float32)},
        {"out": np.empty((3, 2), np.float32)},
        {"out": np.empty((2, 3), np.int32)},
        {"out": np.empty((3, 2), np.float32).T},
        {"out": read_only},
        {"out": [0.0] * 6},
    ]
    assert [how for how in options if find_call(arguments(), MANY, how) is not None] == []


def respond_to(raw: bytes) -> bytes:
    """Returns the response of a service to an InferShape request."""
    return ReshapeService(DEFAULT_LIMITS).infer_shape(raw)


def ask(*dims: Any, **more: Any) -> PreparedCall[InferredShape]:
    own = {**more}
    return find_query(*dims, special_zero=own.pop("zero", False), more=cast("InferOptions", own))


def describe(shape: InferredShape) -> tuple[object, ...]:
    """Returns all that a shape tells its caller."""
    return shape.to_json(), shape.find_violations({name: 0 for one in shape.conditions for name in one.symbols})


@pytest.mark.parametrize("more", [{}, {"explain": True}, {"operation": "reshape", "data_type": "f16"}])
def test_repeated_query_gives_the_same_request_and_shape(more: dict[str, Any], caches: dict[str, dict[Any, Any]]):
    for dims in [((2, 3), [3, -1]), (["N", "2..8", None], (0, 0, -1)), (None, (None, 2)), ([4], None)]:
        expected = {**more, "expected_shape": None if dims[1] else (2, "K")}
        plain = build_infer_shape(*dims, special_zero=True, more=cast("InferOptions", expected))
        for _ in range(3):
            call = ask(*dims, zero=True, **expected)
            assert call[:2] == plain[:2]
            response = respond_to(call.request)
            assert describe(call.decode(response)) == describe(plain.decode(response))
    assert len(caches["_queries"]) == 4


def test_cached_query_decodes_another_response():
    first, second = (respond_to(ask((6,), shape).request) for shape in ([6], [3, 2]))
    for response, dims in ((first, [6]), (second, [3, 2]), (first, [6])):
        assert ask((6,), [6]).decode(response) == dims
    with pytest.raises(ResponseError):
        ask((6,), [6]).decode(b"\xff")


ODD_QUERIES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (((True, 6), (6,)), {}),
    (((6,), (6.0,)), {}),
    (((Integer(6),), (6,)), {}),
    (((6,), np.array([6])), {}),
    ((((6, 6),), (6,)), {}),
    (((6,), (6,)), {"zero": 0}),
    (((6,), (6,)), {"expected_shape": (True,)}),
    (((6,), (6,)), {"explain": 0}),
    (((6,), (6,)), {"data_type": np.dtype(np.float32)}),
    (((6,), (6,)), {"data_from": 0}),
]


def ask_plainly(dims: tuple[Any, ...], more: dict[str, Any]) -> object:
    """Returns the request of a query that is not cached, or its error."""
    own = {**more}
    try:
        return build_infer_shape(*dims, special_zero=own.pop("zero", False), more=cast("InferOptions", own))[:2]
    except (ReshapeError, TypeError) as error:
        return type(error), str(error)


def test_query_of_unusual_types_never_uses_the_entry_of_an_equal_one(caches: dict[str, dict[Any, Any]]):
    usual = [(((1, 6), (6,)), {}), (((6,), (6,)), {"expected_shape": (1,)}), (((6,), (6,)), {})]
    for dims, more in usual:
        call = ask(*dims, **more)
        with suppress(ReshapeError):
            call.decode(respond_to(call.request))
    before = len(caches["_queries"])
    for dims, more in ODD_QUERIES:
        try:
            found: object = ask(*dims, **more)[:2]
        except (ReshapeError, TypeError) as error:
            found = type(error), str(error)
        assert found == ask_plainly(dims, more), (dims, more)
    assert len(caches["_queries"]) == before


def test_cached_view_is_read_only_memory_of_the_caller():
    for asked in PLAIN:
        plan, array = plan_reshape(asked), cast("Array", asked.array)
        planned = plan.build_infer()
        for _ in range(2):
            call = find_call(asked, MANY, {"transfer": "view"})
            assert call is not None, asked
            assert call[:2] == planned[:2]
            viewed = call.decode(respond_to(call.request))
            assert (viewed.shape, viewed.dtype) == (plan.dims, array.dtype)
            assert np.shares_memory(viewed, array)
            assert (viewed.flags.writeable, array.flags.writeable) == (False, True)


def test_cached_view_rejects_a_shape_that_the_rules_do_not_give():
    other = respond_to(ask((6,), [3, 2]).request)
    unusual = respond_to(ask((6,), [2, 3]).request) + b"\x78\x00"  # with an unknown field
    for _ in range(2):
        call = find_call(arguments(), MANY, {"transfer": "view"})
        assert call is not None
        assert call.decode(unusual).shape == (2, 3)
        with pytest.raises(ResponseError, match=r"the server returned \[3, 2\], but the rules give \[2, 3\]"):
            call.decode(other)
