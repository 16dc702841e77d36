"""What callers write: read where it is clear what is meant, else an error that says what to write instead.

Laws:

- Nothing is rounded, and no bool or text is taken for a number.
- What no server could have been asked is an error of Python's kind, a TypeError or a ValueError; what one would refuse
  is that refusal.
- The standard library alone: whoever asks in this process need not wait for an array library.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import Enum
from operator import index
from typing import Protocol, TypeAlias, TypeVar

from tensor_reshape.rules.dtypes import DataType, find_data_type, format_data_types
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import OPERATIONS, Operation, find_operation

_Function = TypeVar("_Function", bound=Callable[..., object])

_FLAG_TYPES = ("bool", "bool_")  # Python's and numpy's, which is no subclass of it
_NO_SHAPES = (str, bytes, bytearray, set, frozenset, dict)  # which have items: letters, bytes, dims in no order
_SHOWN_CHARACTERS = 60
_FLAG_MEANING = (
    "write special_zero=True for a 0 in the target to copy the data dim at its index, special_zero=False for a dim of 0"
)


class NamedType(Protocol):
    """A type of elements of an array library: `numpy.dtype`, `tensorflow.DType`."""

    @property
    def name(self) -> str:
        """As numpy has it: "float32"."""


DataTypeLike: TypeAlias = DataType | str | type[object] | NamedType
"""A data type, its name here ("f32") or in numpy ("float32"), or an array library's own: `numpy.float32`.

>>> for data_type in (DataType.F32, "f32", "float32", np.float32):
...     client.infer_shape((2, 3), (-1,), special_zero=False, data_type=data_type)
InferredShape([6])
InferredShape([6])
InferredShape([6])
InferredShape([6])
"""


class _Required(Enum):
    """Stands for a flag that was not given."""

    REQUIRED = "required"

    def __repr__(self) -> str:
        """What `help` shows."""
        return self.value


REQUIRED = _Required.REQUIRED


def require_special_zero(function: _Function) -> _Function:
    """Has `check_flag` say what is missing in a call without `special_zero`, where Python would say just that it is.

    To type checkers nothing changes, and a call costs nothing more: the function itself is returned.
    """
    defaults: dict[str, object] = getattr(function, "__kwdefaults__", None) or {}
    function.__kwdefaults__ = {**defaults, "special_zero": REQUIRED}
    return function


def require_flag(special_zero: object) -> None:
    """Checks that the flag was given, whatever it is.

    Raises:
        TypeError: it is missing.
    """
    if special_zero is REQUIRED:
        message = f"special_zero is missing: {_FLAG_MEANING}"
        raise TypeError(message)


def check_flag(special_zero: object) -> bool | None:
    """Returns the flag; None passes: it is the rules that refuse it.

    Raises:
        TypeError: it is something else, or missing.
    """
    # By identity: 1 and 0 equal them, and are no flags.
    if special_zero is True or special_zero is False:
        return special_zero
    require_flag(special_zero)
    if special_zero is not None and type(special_zero).__name__ not in _FLAG_TYPES:
        message = f"special_zero is {_show(special_zero)}, and a bool is meant: {_FLAG_MEANING}"
        raise TypeError(message)
    return None if special_zero is None else bool(special_zero)


def read_integer(value: object, field: str, place: int | None = None) -> int:
    """Returns the integer that is an item of a shape, or a field by itself; one of numpy's becomes Python's.

    Raises:
        TypeError: it is none, or a bool.
    """
    is_bool = type(value).__name__ in _FLAG_TYPES  # numpy 2.1 takes its own for integers, with a warning
    if not is_bool:
        try:
            return index(value)  # type: ignore[arg-type] # whatever it is, it says so
        except TypeError:
            pass
    advice = f"{int(value)}" if isinstance(value, float) and value.is_integer() else "an integer"
    if is_bool:
        advice = f"{int(value)}"  # type: ignore[call-overload] # so it is one
    path = field if place is None else f"{field}[{place}]"
    message = f"{path} is {_show(value)}, of the type {type(value).__name__}: write {advice}"
    raise TypeError(message)


def read_integers(items: object, field: str) -> tuple[int, ...]:
    """Returns a shape of integers.

    Raises:
        TypeError: it is no sequence of them.
    """
    # Most items are ints, and need no call; a bool is none by its type.
    return tuple(
        [
            item if type(item) is int else read_integer(item, field, place)
            for place, item in enumerate(check_shape(items, field))
        ]
    )


def check_shape(items: object, field: str) -> Iterable[object]:
    """Returns what may be a shape: it has items, in an order.

    Raises:
        TypeError: it is a text, a set, a single number, or an array of which the shape is meant.
    """
    if isinstance(items, _NO_SHAPES):
        kind = "text" if isinstance(items, str) else type(items).__name__
        message = f"a shape is a sequence of dims, and {field} is the {kind} {_show(items)}: write a list, as [2, 3]"
        raise TypeError(message)
    rank = getattr(items, "ndim", 1)
    if isinstance(items, Iterable) and rank == 1:
        return items
    if rank > 1:
        message = f"a shape is a sequence of dims, and {field} is an array of rank {rank}: write its .shape, or a list"
        raise TypeError(message)
    is_integer = hasattr(items, "__index__") and not isinstance(items, bool)
    advice = f"[{index(items)}]" if is_integer else "a list of its dims"  # type: ignore[arg-type] # it has it
    message = f"a shape is a sequence of dims, and {field} is {_show(items)}: write {advice}"
    raise TypeError(message)


def read_operation(name: object) -> Operation:
    """Returns the operation that is named, in any of the usual spellings: "reshape", "Reshape-1", "StaticReshape".

    Raises:
        InvalidRequestError: OPERATION_UNSPECIFIED.
    """
    operation = find_operation(name) if isinstance(name, str) else None
    if operation is None:
        message = f"operation is {_show(name)}; it is one of {', '.join(OPERATIONS)}"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, message, "operation", value=name)
    return operation


def read_data_type(value: object, field: str = "data_type") -> DataType:
    """Returns the data type that is meant by one, by a name, or by a type of an array library.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, for one that is named and not served.
        TypeError: it names none.
    """
    if isinstance(value, DataType):
        return value
    name = _find_type_name(value)
    data_type = None if name is None else find_data_type(name)
    if data_type is not None:
        return data_type
    if name is None:
        message = f"{field} is {_show(value)}: write a DataType, or the name of one, as 'f32' or 'float32'"
        raise TypeError(message)
    served = format_data_types(frozenset(DataType))
    nearest = get_close_matches(name.lower(), served.split(", "), n=1)
    hint = f". Did you mean '{nearest[0]}'?" if nearest else ""
    message = f"{field} is {_show(value)}, which is not served; served are {served}{hint}"
    raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, field, value=name)


def check_method(method: object) -> None:
    """Checks what is to be called on a thread.

    Raises:
        TypeError: it has been called already, or is a name.
    """
    if not callable(method):
        message = "submit takes the method, and then its arguments: client.submit(client.reshape, array, shape, ...)"
        raise TypeError(message)


def _find_type_name(value: object) -> str | None:
    """Returns what a type of elements is called; None where this is nothing of the kind."""
    if isinstance(value, str):
        return value.removeprefix("torch.")  # as torch prints its own
    if isinstance(value, int | float | tuple | list | dict) or value is None:
        return None
    # A class has __name__, numpy.dtype and the like have name; torch's are known by what they print: torch.float32.
    name = getattr(value, "__name__", None) or getattr(value, "name", None) or str(value)
    return str(name).rpartition(".")[2]


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
