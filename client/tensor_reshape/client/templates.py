"""Calls but for their elements: most reshapes are like one before, and cost one lookup, one join and one comparison.

Laws:

- Only what is exactly alike shares a template. Python holds True, 1 and 1.0 for equal, and what an object of another
  class does when it is read, nobody knows. So a call with other types than `_find_key` takes has no template.
- A template is made of the plan of a call: what the rules refuse never has one.
- A response that is not what the template expects, byte for byte, is read as that of any other call.

Any thread may look a template up and make one: two threads that make the same template make equal ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensor_reshape.client.arrays import is_array, read_array
from tensor_reshape.client.requests import Arguments, Call, Expected, plan_reshape
from tensor_reshape.rules.operations import Operation
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_reshape.wire.reshapes import encode_response_header

_MAX_TEMPLATES = 1024
_MAX_HEADER_BYTES = 4096  # of the request; with it a template takes some two kilobytes more
_SEQUENCES = (tuple, list)
_TARGET_ITEMS = frozenset({int, *(np.dtype(kind).type for kind in "bhilqBHILQ")})
_EXPECTED_ITEMS = _TARGET_ITEMS | {str, type(None)}


class Template(NamedTuple):
    """A reshape of any elements of one type and shape, in one message.

    Attributes:
        path: the method, as HTTP/2 has it.
        request_header: the request up to the elements.
        response_header: the response up to the elements, as this project's server writes it.
        response_bytes: how long that response is.
        dims: of the output.
        dtype: of the output.
        decode: reads a response, whoever wrote it.
    """

    path: str
    request_header: bytes
    response_header: bytes
    response_bytes: int
    dims: tuple[int, ...]
    dtype: np.dtype[np.generic]
    decode: Callable[[bytes], Array]

    def read(self, raw: bytes) -> Array:
        """Returns the output, which is a read-only view of the response where that is the expected one."""
        if len(raw) == self.response_bytes and raw.startswith(self.response_header):
            return np.ndarray(self.dims, self.dtype, raw, len(self.response_header))
        return self.decode(raw)


# All that decides a template: the operation, the type and the dims of the data, the target, its type if it is an array,
# special_zero, and the expected shape; of each one type, which `_find_key` checks. A plain tuple: names would cost as
# much as the look-up.
_DType = np.dtype[np.generic]
_Key = tuple[Operation, _DType, tuple[int, ...], tuple[int, ...], _DType | None, bool, Expected]

_templates: RecentCache[_Key, Template] = RecentCache(_MAX_TEMPLATES, _MAX_HEADER_BYTES)


def find_call(arguments: Arguments, max_bytes: int) -> Call[Array] | None:
    """Returns the call of a reshape in one message; None where it has no template, or above `max_bytes` of elements.

    Raises:
        ReshapeError: the refusal that the server would answer with.
    """
    array = arguments.array
    if not isinstance(array, np.ndarray) and is_array(array):
        array = read_array(array, "data")
    # Without elements dims may be beyond what numpy holds; and what is not row-major has its strides in its header.
    if type(array) is not np.ndarray or not 0 < array.nbytes <= max_bytes or not array.flags.c_contiguous:
        return None
    key = _find_key(arguments, array)
    if key is None:
        return None
    template = _templates[key] or _make_template(key, array)
    if template is None:
        return None
    # To a join the array is its bytes, whatever their type; a memoryview of them is none where only ml_dtypes knows it.
    request = b"".join((template.request_header, array))  # type: ignore[arg-type] # it has a buffer
    return Call(template.path, request, template.read)


def _find_key(arguments: Arguments, array: Array) -> _Key | None:
    """Returns the key of a call; None where an argument is not of the plain types, which are equal only if alike."""
    operation, _, shape, special_zero, expected = arguments
    kind: _DType | None = None
    if type(shape) is np.ndarray and shape.ndim == 1:
        kind, shape = shape.dtype, shape.tolist()
    if type(shape) not in _SEQUENCES or type(special_zero) is not bool:
        return None
    # Copied once: what is checked, what is looked up and what is planned is the same, whoever changes the list.
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


def _make_template(key: _Key, array: Array) -> Template | None:
    """Returns the template of a key, made with an array of the caller's; None where that is not what it was."""
    operation, dtype, dims, target, kind, special_zero, expected = key
    data = array.view()  # an array of its own: the caller's may get another shape from another thread meanwhile
    if (data.dtype, data.shape) != (dtype, dims):
        return None
    if not data.dtype.isnative:  # its elements are not sent as they are
        return None
    shape = target if kind is None else np.array(target, kind)
    plan = plan_reshape(Arguments(operation, data, shape, special_zero, expected))
    if plan.data_type.is_packed:  # nor are those that share bytes
        return None
    call = plan.build_inline()
    response_header = encode_response_header(plan.data_type, plan.dims, data.nbytes)
    template = Template(
        path=call.method,
        request_header=call.request[: len(call.request) - data.nbytes],
        response_header=response_header,
        response_bytes=len(response_header) + data.nbytes,
        dims=plan.dims,
        # As without a template: types that are equal are not all alike, by their metadata or by the name in C.
        dtype=DTYPES[plan.data_type],
        decode=call.decode,
    )
    _templates.keep(key, template, len(template.request_header))
    return template
