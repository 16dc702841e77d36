"""Reads arguments in any unambiguous spelling, and checks targets.

Errors name the correct spelling.

Invariants:

- No argument is rounded, and a bool or text is never used as a number.
- A value that cannot be sent to a server raises TypeError or ValueError. A value that a server would reject raises the
  same error as on the server.
- A target without one of gRPC's schemes, such as `dns:`, must be `host:port`. If the port were missing, gRPC would use
  port 443, and it would treat `http://host:1` as a host name. Without this check, a wrong target would cause an error
  only when a call finds no server.
- This module imports no third-party package, so local inference starts without loading an array library.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from operator import index
from typing import Any, Protocol, TypeAlias, TypeVar

from tensor_reshape.rules.dtypes import DataType, find_data_type, format_data_types
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import SHAPE_OPERATIONS, Operation, find_operation

_Function = TypeVar("_Function", bound=Callable[..., object])

# These are the names of the bool types of Python and numpy. The two types are unrelated classes.
_FLAG_TYPES = ("bool", "bool_")
_NO_SHAPES = (str, bytes, bytearray, set, frozenset, dict)  # these types are iterable, but are not accepted as a shape
_SHOWN_CHARACTERS = 60
_FLAG_MEANING = (
    "write special_zero=True if a 0 in the requested shape copies the input dimension at its index, or "
    "special_zero=False for a dimension of size 0"
)


class NamedType(Protocol):
    """An element type of an array library, for example an instance of `numpy.dtype` or `tensorflow.DType`."""

    @property
    def name(self) -> str:
        """The name of the type in numpy's spelling, for example "float32"."""


DataTypeLike: TypeAlias = DataType | str | type[object] | NamedType
"""A data type, its name ("f32"), its numpy name ("float32"), or the type of an array library, such as `numpy.float32`.

>>> for data_type in (DataType.F32, "f32", "float32", np.float32):
...     client.infer_shape((2, 3), (-1,), special_zero=False, data_type=data_type)
InferredShape([6])
InferredShape([6])
InferredShape([6])
InferredShape([6])
"""


class _Required(Enum):
    """The default value of a flag that callers must pass.

    If a flag has this value, the caller has not passed the flag.
    """

    REQUIRED = "required"

    def __repr__(self) -> str:
        """The text that Python's `help` shows for this value."""
        return self.value


REQUIRED = _Required.REQUIRED


def require_special_zero(function: _Function) -> _Function:
    """Decorates a function so that a call without `special_zero` raises an error that explains this flag.

    The decorator returns the function itself, so type checkers see no change and calls take no longer than before.
    """
    defaults: dict[str, object] = getattr(function, "__kwdefaults__", None) or {}
    function.__kwdefaults__ = {**defaults, "special_zero": REQUIRED}
    return function


def require_flag(special_zero: object) -> None:
    """Checks that the caller has passed the flag.

    Raises:
        TypeError: the flag is missing.
    """
    if special_zero is REQUIRED:
        raise TypeError(f"special_zero is missing: {_FLAG_MEANING}")


def check_keywords(method: str, given: Mapping[str, Any], own: Sequence[str], options: type[Mapping[str, Any]]) -> None:
    """Checks that `options` declares every given keyword. Python does not check the keywords of a `TypedDict`.

    Args:
        method: the name of the method.
        given: keywords that are not arguments of the method.
        own: the names of the method's own arguments.
        options: the `TypedDict` that declares the other keywords.

    Raises:
        TypeError: a keyword is unknown. The message has the form of Python's own error and suggests the most similar
            keyword.
    """
    known = options.__annotations__
    for name in given:
        if name not in known:
            nearest = get_close_matches(name, [*own, *known], n=1)
            hint = f". Did you mean '{nearest[0]}'?" if nearest else ""
            raise TypeError(f"{method}() got an unexpected keyword argument '{name}'{hint}")


def check_flag(special_zero: object) -> bool | None:
    """Returns the flag. The value None is accepted here, because the rules reject it later.

    Raises:
        TypeError: the flag is missing, or is not a bool.
    """
    # The flag is compared with `is`, because a comparison with `==` would also accept 1 and 0, which are equal to True
    # and False.
    if special_zero is True or special_zero is False:
        return special_zero
    require_flag(special_zero)
    if special_zero is not None and type(special_zero).__name__ not in _FLAG_TYPES:
        raise TypeError(f"special_zero is {show_value(special_zero)}, not a bool: {_FLAG_MEANING}")
    return None if special_zero is None else bool(special_zero)


def read_integer(value: object, field: str, place: int | None = None) -> int:
    """Returns a field, or an item of a shape, as an integer. Integers of numpy are converted to Python integers.

    Raises:
        TypeError: the value is not an integer, or is a bool.
    """
    # a numpy bool is rejected here, because numpy 2.1 would accept it as an integer with a warning
    is_bool = type(value).__name__ in _FLAG_TYPES
    if not is_bool:
        try:
            return index(value)  # type: ignore[arg-type] # raises if it is not an integer
        except TypeError:
            pass
    advice = f"{int(value)}" if isinstance(value, float) and value.is_integer() else "an integer"
    if is_bool:
        advice = f"{int(value)}"  # type: ignore[call-overload] # raises if it is not a number
    path = field if place is None else f"{field}[{place}]"
    raise TypeError(f"{path} is {show_value(value)}, of the type {type(value).__name__}: write {advice}")


def read_integers(items: object, field: str) -> tuple[int, ...]:
    """Returns the items of a shape as integers.

    Raises:
        TypeError: the value is not a sequence of integers.
    """
    # Most items of a shape have the exact type int. `read_integer` is called only for items of other types, such as
    # bools, which it rejects.
    return tuple(
        [
            item if type(item) is int else read_integer(item, field, place)
            for place, item in enumerate(check_shape(items, field))
        ]
    )


def check_shape(items: object, field: str) -> Iterable[object]:
    """Returns `items` if they are an ordered collection, as the items of a shape must be.

    Raises:
        TypeError: `items` is text, a set, a single number, or an array that was passed instead of its shape.
    """
    if isinstance(items, _NO_SHAPES):
        kind = "text" if isinstance(items, str) else type(items).__name__
        raise TypeError(
            f"{field} is the {kind} {show_value(items)}, not a sequence of dimensions: write a list, such as [2, 3]"
        )
    rank = getattr(items, "ndim", 1)
    if isinstance(items, Iterable) and rank == 1:
        return items
    if rank > 1:
        raise TypeError(
            f"{field} is an array of rank {rank}, not a sequence of dimensions: write its .shape, or a list"
        )
    is_integer = hasattr(items, "__index__") and not isinstance(items, bool)
    advice = f"[{index(items)}]" if is_integer else "a list of its dimensions"  # type: ignore[arg-type] # checked above
    raise TypeError(f"{field} is {show_value(items)}, not a sequence of dimensions: write {advice}")


def read_operation(name: object) -> Operation:
    """Returns the operation for a name in any usual spelling, such as "reshape", "Reshape-1" or "StaticReshape".

    Raises:
        InvalidRequestError: OPERATION_UNSPECIFIED.
    """
    operation = find_operation(name) if isinstance(name, str) else None
    if operation is None:
        message = f"operation is {show_value(name)}; use one of {', '.join(SHAPE_OPERATIONS)}"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, message, "operation", value=name)
    return operation


def read_data_type(value: object, field: str = "data_type") -> DataType:
    """Returns the data type of a value: a `DataType`, a name, or a type of an array library.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, if the name is known but not supported.
        TypeError: the value is not a data type.
    """
    if isinstance(value, DataType):
        return value
    name = _find_type_name(value)
    data_type = None if name is None else find_data_type(name)
    if data_type is not None:
        return data_type
    if name is None:
        raise TypeError(f"{field} is {show_value(value)}: write a DataType or its name, such as 'f32' or 'float32'")
    served = format_data_types(frozenset(DataType))
    nearest = get_close_matches(name.lower(), served.split(", "), n=1)
    hint = f". Did you mean '{nearest[0]}'?" if nearest else ""
    message = f"{field} is {show_value(value)}, which is not supported; supported types: {served}{hint}"
    raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, field, value=name)


def check_method(method: object) -> None:
    """Checks the method that a thread will call.

    Raises:
        TypeError: the argument is not callable, for example because it is the result of a call.
    """
    if not callable(method):
        message = (
            "the first argument of submit must be a method: write client.submit(client.reshape, array, shape, ...)"
        )
        raise TypeError(message)


def _find_type_name(value: object) -> str | None:
    """Returns the name of an element type. The result is None if the value is not an element type."""
    if isinstance(value, str):
        return value.removeprefix("torch.")  # the text of a torch type begins with `torch.`, as in torch.float32
    if isinstance(value, int | float | tuple | list | dict) or value is None:
        return None
    # A class has `__name__`, and a dtype object of numpy has `name`. A dtype object of torch has neither attribute, but
    # its text is, for example, torch.float32.
    name = getattr(value, "__name__", None) or getattr(value, "name", None) or str(value)
    return str(name).rpartition(".")[2]


def show_value(value: object) -> str:
    """Returns the `repr` of a value, and shortens it if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


DEFAULT_TARGET = "localhost:50051"
DEFAULT_TIMEOUT_SECONDS = 30.0

_SCHEMES = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:", "xds:")
_URL = re.compile(r"[a-zA-Z][\w+.-]*://(.*?)/*")
_ADDRESS = re.compile(r"(\[[^\[\]]+\]|[^:/\[\]\s]+):(\d+)")
_IPV6 = re.compile(r"[0-9a-fA-F:.]*(%.*)?")
_MAX_PORT = 65535


def check_target(target: object) -> str:
    """Returns the target of a client if it is valid.

    Raises:
        TypeError: the target is not text.
        ValueError: the target is not `host:port`, and does not begin with one of gRPC's schemes.
    """
    if not isinstance(target, str):
        raise TypeError(f"target is {target!r}: write {_suggest(target)}")
    found = _ADDRESS.fullmatch(target)
    if target.startswith(_SCHEMES) or (found and 0 < int(found[2]) <= _MAX_PORT):
        return target
    raise ValueError(f"target is {target!r}; use host:port, dns:///host:port or unix:PATH: {_explain(target)}")


def _explain(target: str) -> str:
    """Returns a text that says what is wrong with an address, and what to write instead."""
    url = _URL.fullmatch(target)
    if url is not None:
        return f"write {url[1]!r} without the scheme; for TLS, pass credentials=grpc.ssl_channel_credentials()"
    if target.isdecimal():
        return f"write 'localhost:{target}'"
    host, _, port = target.rpartition(":")
    if ":" in host and _IPV6.fullmatch(host):
        return f"write the IPv6 address in brackets, '[{host}]:{port}'"
    if target.startswith(":"):
        return f"write 'localhost{target}'"
    if ":" not in target:
        return f"add a port, as in '{target or 'localhost'}:50051'"
    return "end it with a port from 1 to 65535"


def _suggest(target: object) -> str:
    match target:
        case int() if not isinstance(target, bool):
            return f"'localhost:{target}'"
        case (str(host), int(port)):
            return f"'{host}:{port}'"
        case _:
            return "text such as 'localhost:50051'"
