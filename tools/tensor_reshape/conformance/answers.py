"""What an implementation answers, read from its JSON.

Laws: whatever an implementation writes, it is one of these or `GarbledError`; what is null is not there, as the
serializers of many languages write it, but for the shape; and of a shape no more dims are read than any rank has.
"""

from typing import NamedTuple, TypeAlias

from tensor_reshape.client.queries import read_dims
from tensor_reshape.client.question_records import read_shape
from tensor_reshape.rules.dims import AnyDim, find_bounds
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.json_format import Json

MAX_WHY_CHARACTERS = 200
_MAX_DIMS = 4096


class GarbledError(Exception):
    """A record is no answer; the text says why."""


class Told(NamedTuple):
    """A shape.

    Attributes:
        dims: None: its rank is unknown.
        view: whether it can be a view, and its strides; None: nothing is said of it.
        data: the bytes of the output, in hexadecimal; None: nothing was executed.
    """

    dims: tuple[AnyDim, ...] | None
    view: Json | None = None
    data: str | None = None


class Rejected(NamedTuple):
    """A rejection.

    Attributes:
        reason: which one; empty: none is told.
    """

    reason: str


class Unsupported(NamedTuple):
    """Something that the implementation does not offer.

    Attributes:
        why: in its words.
    """

    why: str


Answer: TypeAlias = Told | Rejected | Unsupported


def read_answer(record: Json) -> Answer:
    """Reads an answer.

    Raises:
        GarbledError: it is none.
    """
    parts = [key for key in ("shape", "error", "unsupported") if record.get(key) is not None]
    if len(parts) > 1:
        message = f"it has both {parts[0]} and {parts[1]}"
        raise GarbledError(message)
    if parts == ["unsupported"]:
        return Unsupported(str(record["unsupported"])[:MAX_WHY_CHARACTERS])
    if parts == ["error"]:
        error = record["error"]
        return Rejected(str(error.get("reason") or "")[:MAX_WHY_CHARACTERS] if isinstance(error, dict) else "")
    if "shape" not in record:
        message = "it has neither shape, error nor unsupported"
        raise GarbledError(message)
    view, data = record.get("view"), record.get("bytes")
    if not (view is None or isinstance(view, dict)) or not (data is None or isinstance(data, str)):
        message = "its view is not an object, or its bytes are not text"
        raise GarbledError(message)
    return Told(_read_dims(record["shape"]), view, data)


def _read_dims(value: object) -> tuple[AnyDim, ...] | None:
    if isinstance(value, list):
        if len(value) > _MAX_DIMS:
            message = f"its shape has {len(value)} dims"
            raise GarbledError(message)
        if any(isinstance(dim, str) for dim in value):  # a name is that of {"min", "max", "name"}; "6" is no number
            message = "a dim of its shape is text"
            raise GarbledError(message)
        value = [_complete(dim) if isinstance(dim, dict) else dim for dim in value]
    try:
        dims = read_dims(read_shape("shape", value), "shape")
    except InvalidRequestError as error:
        raise GarbledError(str(error)) from None
    if any(find_bounds(dim).is_empty for dim in dims or ()):
        message = "a dim of its shape is empty"
        raise GarbledError(message)
    return dims


def _complete(dim: Json) -> Json:
    return {"min": 0, "max": None, **{key: value for key, value in dim.items() if value is not None}}
