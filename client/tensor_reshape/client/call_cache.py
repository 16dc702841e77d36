"""Caches encoded requests except for the elements of tensors, and caches shape queries with their responses.

Most calls have the same types and shapes as an earlier call. A cached call needs only one lookup, one join of bytes and
one comparison to encode the request and to decode the response. Invariants:

- Two calls share a cache entry only if they are exactly equal. In Python, True, 1 and 1.0 are equal, and objects of
  other classes may define equality in any way. `_find_key` therefore accepts only certain types of arguments, and a
  call with other types is not cached.
- A reshape is cached only if the local rules accept it, and a query is cached only after the server has accepted it. A
  rejected call is therefore never cached.
- If a response differs from the expected bytes, it is decoded like the response of a call that is not cached.

Several threads may look up and create cache entries at the same time. If two threads create the same cache entry, both
entries are equal.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tensor_reshape.client.arrays import is_array, read_array
from tensor_reshape.client.contexts import CALL_OPTIONS
from tensor_reshape.client.output_memory import adapt_allocator
from tensor_reshape.client.queries import DimLike, ShapeOptions
from tensor_reshape.client.requests import (
    Arguments,
    Expected,
    InferOptions,
    Plan,
    PreparedCall,
    build_infer_shape,
    decode_answer,
    decode_array,
    plan_reshape,
    reject_shape,
)
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.client.transfers import Handover
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import KnownQuestion, ShapeRequest
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_reshape.wire.inference import encode_infer_response
from tensor_reshape.wire.reshapes import encode_response_header

FAST_OPTIONS = CALL_OPTIONS | {"transfer", "out", "writable"}
"""The options with which a call may use the cache."""

_CACHED_WAYS = ("inline", "view")
_VIEW_OPTIONS = CALL_OPTIONS | {"transfer"}

# each cache has two generations of this size in bytes, and a generation can hold about 10,000 reshapes
_MAX_CACHE_BYTES = 14 << 20
_MAX_ENTRY_BYTES = 8192
_OBJECT_BYTES = 600  # this is the measured size in bytes of a cache key and its entry, without the message headers
_QUERY_BYTES = 1600  # this is the measured size in bytes of a cached query and its answer, if they contain only numbers
_DECODED = 70  # a decoded answer takes about 70 times as much memory as its encoded bytes, mostly for names
_SEQUENCES = (tuple, list)
_TARGET_ITEMS = frozenset({int, *(np.dtype(kind).type for kind in "bhilqBHILQ")})
_EXPECTED_ITEMS = _TARGET_ITEMS | {str, type(None)}
_WORDS = frozenset({str, DataType, type(None)})
_FLAGS = frozenset({bool})


class CachedCall(NamedTuple):
    """The prepared messages of a reshape call, for data of one type and shape.

    Attributes:
        path: the method path.
        request_header: the bytes of the request before the elements.
        response_header: the expected bytes of the response before the elements, as this project's server writes them.
        response_bytes: the length of the expected response, including the elements.
        dims: the output shape.
        dtype: the output type.
        question: the query, which is needed to decode a response with an unexpected header.
    """

    path: str
    request_header: bytes
    response_header: bytes
    response_bytes: int
    dims: tuple[int, ...]
    dtype: np.dtype[np.generic]
    question: KnownQuestion

    def read(self, raw: bytes) -> Array:
        """Returns the output.

        The output is a read-only view of the response if the response has the expected header.
        """
        if len(raw) == self.response_bytes and raw.startswith(self.response_header):
            return np.ndarray(self.dims, self.dtype, raw, len(self.response_header))
        return decode_answer(partial(decode_array, self.question, self.dims), raw)

    def copy(self, raw: bytes) -> Array:
        """Returns a writable copy of the output."""
        return self.read(raw).copy()

    def fill(self, out: Array, raw: bytes) -> Array:
        """Copies the output into `out` and returns it."""
        out[...] = self.read(raw)
        return out

    def fits(self, out: object) -> bool:
        """Whether `out` can hold the output.

        If `out` cannot hold the output, the module `transfers` handles the call and raises an error.
        """
        if type(out) is not np.ndarray or out.dtype != self.dtype or out.shape != self.dims:
            return False
        return out.flags.c_contiguous and out.flags.writeable


# A cache key contains the operation, the type and shape of the data, the requested shape, special_zero, and the
# expected shape. If the requested shape is an array, the key also contains the type of this array. `_find_key` checks
# the types of all parts of the key. The key is a plain tuple, because creating a named tuple would take as long as the
# lookup.
_DType = np.dtype[np.generic]
_Key = tuple[Operation, _DType, tuple[int, ...], tuple[int, ...], _DType | None, bool, Expected]

_cache: RecentCache[_Key, CachedCall] = RecentCache(_MAX_CACHE_BYTES, _MAX_ENTRY_BYTES)


class CachedQuery(NamedTuple):
    """A shape query with its response.

    Attributes:
        call: the call, which also decodes a response that differs from the cached response.
        response: the response as this project's server writes it.
        answer: the decoded response.
    """

    call: PreparedCall[InferredShape]
    response: bytes
    answer: InferredShape

    def read(self, raw: bytes) -> InferredShape:
        """Returns the answer that a response contains. Each caller gets a separate object."""
        return copy(self.answer) if raw == self.response else self.call.decode(raw)

    def view(self, array: Array, raw: bytes) -> Array:
        """Returns a read-only view of `array` with the shape in the answer."""
        dims = self.answer.known
        if raw != self.response and (answer := self.call.decode(raw)) != dims:
            raise reject_shape(answer, dims)
        viewed = array.reshape(dims)
        viewed.flags.writeable = False
        return viewed


_QUERY_OPTIONS = CALL_OPTIONS | {"special_zero", *ShapeOptions.__annotations__}
_views: RecentCache[_Key, CachedQuery] = RecentCache(_MAX_CACHE_BYTES, _MAX_ENTRY_BYTES)
_queries: RecentCache[tuple[Any, ...], CachedQuery] = RecentCache(_MAX_CACHE_BYTES, 4 * _MAX_ENTRY_BYTES)


def find_query(
    data_shape: Sequence[DimLike] | None,
    shape: Sequence[DimLike] | None,
    *,
    special_zero: bool,
    more: InferOptions,
) -> PreparedCall[InferredShape]:
    """Returns an InferShape call, and caches its response; see `build_infer_shape`."""
    key = _find_query_key((data_shape, shape, more.get("expected_shape")), {"special_zero": special_zero, **more})
    if key is None:
        return build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)
    cached = _queries[key]
    if cached is not None:
        method, request, _, question = cached.call
        return PreparedCall(method, request, cached.read, question)
    # The call is built from the copies of the shapes in the cache key, because another thread may change the lists of
    # the caller.
    data_shape, shape, expected, *_ = key
    if expected is not None:
        more = {**more, "expected_shape": expected}
    call = build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)

    def read(raw: bytes) -> InferredShape:
        answer = call.decode(raw)
        _queries.keep(key, CachedQuery(call, raw, answer), _QUERY_BYTES + len(call.request) + _DECODED * len(raw))
        return copy(answer)

    return call._replace(decode=read)


def _find_query_key(shapes: Iterable[Sequence[DimLike] | None], more: Mapping[str, object]) -> tuple[Any, ...] | None:
    """Returns the cache key of a query. The shapes are the first items of the key.

    The result is None if an argument has a type for which == may treat different values as equal.
    """
    if not more.keys() <= _QUERY_OPTIONS:
        return None
    sides = list[tuple[DimLike, ...] | None]()
    for dims in shapes:
        if dims is None:
            sides.append(None)
            continue
        if type(dims) not in _SEQUENCES:
            return None
        side = tuple(dims)  # the shape is copied once, as in `_find_key`
        if not _EXPECTED_ITEMS.issuperset(map(type, side)):
            return None
        sides.append(side)
    words = more.get("operation"), more.get("data_type")
    flags = more["special_zero"], more.get("explain", False)
    if not _WORDS.issuperset(map(type, words)) or not _FLAGS.issuperset(map(type, flags)):
        return None
    return *sides, *words, *flags


def find_call(arguments: Arguments, max_bytes: int, how: Handover) -> PreparedCall[Array] | None:
    """Returns the call for a reshape that needs no stream. The result is None if the call cannot be cached.

    Args:
        arguments: the arguments of the operation.
        max_bytes: the maximum size in bytes of the elements that the transfer mode "auto" sends in one message.
        how: the options, which may have only the keys in FAST_OPTIONS.

    Raises:
        ReshapeError: the error that the server would return.
    """
    array = arguments.array
    if not isinstance(array, np.ndarray) and is_array(array):
        array = read_array(array, "data")
    way = how.get("transfer", "auto") if how else "auto"
    # An empty array is not cached, because its output may have dims that numpy cannot represent. An array that is not
    # row-major is not cached, because its request contains strides.
    if type(array) is not np.ndarray or not array.nbytes or not array.flags.c_contiguous:
        return None
    if way == "auto":
        way = "inline" if array.nbytes <= max_bytes else "stream"
    key = _find_key(arguments, array) if way in _CACHED_WAYS else None
    if key is None:
        return None
    if way == "view":
        return _find_view(key, array, how)
    cached = _cache[key] or _cache_call(key, array)
    if cached is None:
        return None
    decode = _find_decoder(cached, how) if how else cached.read
    if decode is None:
        return None
    # `bytes.join` accepts a numpy array of any type. A memoryview cannot be created from an array with a type of
    # ml_dtypes.
    request = b"".join((cached.request_header, array))  # type: ignore[arg-type] # an array is a buffer
    return PreparedCall(cached.path, request, decode)


def _find_view(key: _Key, array: Array, how: Handover) -> PreparedCall[Array] | None:
    """Returns the call in which the server infers the shape of a view. Returns None if the call cannot be cached."""
    if not how.keys() <= _VIEW_OPTIONS:
        return None
    cached = _views[key] or _cache_view(key, array)
    if cached is None:
        return None
    return PreparedCall(cached.call.method, cached.call.request, partial(cached.view, array))


def _find_decoder(cached: CachedCall, how: Handover) -> Callable[[bytes], Array] | None:
    """Returns the function that reads the response of the call. The result is None if `out` cannot hold the output."""
    out = how.get("out")
    if out is not None:
        return partial(cached.fill, out) if cached.fits(out) else None
    return cached.copy if how.get("writable", False) else cached.read


def _find_key(arguments: Arguments, array: Array) -> _Key | None:
    """Returns the cache key of a call.

    The result is None if an argument has a type for which == may treat different values as equal.
    """
    operation, _, shape, special_zero, expected = arguments
    kind: _DType | None = None
    if type(shape) is np.ndarray and shape.ndim == 1:
        kind, shape = shape.dtype, shape.tolist()
    if type(shape) not in _SEQUENCES or type(special_zero) is not bool:
        return None
    # The shape is copied once, because another thread may change the list. The type check, the cache lookup and the
    # reshape plan must use the same shape.
    target = tuple(shape)
    if not _TARGET_ITEMS.issuperset(map(type, target)):
        return None
    if expected is not None:
        if type(expected) not in _SEQUENCES:
            return None
        expected = tuple(expected)
        if not _EXPECTED_ITEMS.issuperset(map(type, expected)):
            return None
    return operation, array.dtype, array.shape, target, kind, special_zero, expected


def _plan(key: _Key, array: Array) -> Plan | None:
    """Plans the reshape of `array` that a cache key describes.

    The result is None if the array does not match the key, or if its elements must be converted before they are sent.
    """
    operation, dtype, dims, target, kind, special_zero, expected = key
    data = array.view()  # a new view is created, because another thread may change the shape of the caller's array
    if (data.dtype, data.shape) != (dtype, dims):
        return None
    if not data.dtype.isnative:  # elements in the other byte order are converted before they are sent
        return None
    shape = target if kind is None else np.array(target, kind)
    plan = plan_reshape(Arguments(operation, data, shape, special_zero, expected))
    return None if plan.data_type.is_packed else plan  # elements of a packed type are packed before they are sent


def _cache_view(key: _Key, array: Array) -> CachedQuery | None:
    plan = _plan(key, array)
    if plan is None:
        return None
    call, answer = plan.build_infer(), answer_question(ShapeRequest(plan.question))
    cached = CachedQuery(call, encode_infer_response(answer), InferredShape(answer))
    _views.keep(key, cached, _QUERY_BYTES + len(call.request) + len(cached.response))
    return cached


def _cache_call(key: _Key, array: Array) -> CachedCall | None:
    plan = _plan(key, array)
    if plan is None:
        return None
    data = plan.array
    adapt_allocator(data.nbytes)
    call = plan.build_inline()
    response_header = encode_response_header(plan.data_type, plan.dims, data.nbytes)
    cached = CachedCall(
        path=call.method,
        request_header=call.request[: len(call.request) - data.nbytes],
        response_header=response_header,
        response_bytes=len(response_header) + data.nbytes,
        dims=plan.dims,
        # The output gets this dtype object, as in calls that are not cached. The dtype object of the caller's array is
        # equal, but may have other metadata or another C name.
        dtype=DTYPES[plan.data_type],
        question=plan.question,
    )
    entry_bytes = _OBJECT_BYTES + len(cached.request_header) + len(response_header)
    _cache.keep(key, cached, entry_bytes)
    return cached
