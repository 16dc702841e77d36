"""The questions of the kit as an adapter takes them, and the answers that it gives back.

- It is the standard library alone: an environment holds the library that is asked, and nothing of this project.
- A dim that is not known keeps all that is said of it; whether a library can be told as much is for its adapter.
"""

import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

_MAX_LENGTH = 64
"""The most characters of a name, and names of an expression."""
_MAX_NAMES = 256
_FACTOR = r"(?:\w+|\([^()]+\))(?:\^[0-9]+)?"
_FACTORS = rf"{_FACTOR}(?: ?\* ?{_FACTOR})*"
_PRODUCT = re.compile(rf"{_FACTORS}(?: ?/ ?(?:\w+|\({_FACTORS}\)))?")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A dim, or an item of a target, of which only bounds are known, and maybe a name.

    Attributes:
        min: the least that it may be.
        max: the most; None: nothing bounds it.
        name: equal names are equal dims. It may be an expression, such as "4*C"; None: there is none.
    """

    min: int = 0
    max: int | None = None
    name: str | None = None

    @property
    def is_expression(self) -> bool:
        """Whether its name is computed of others."""
        return self.name is not None and not self.name.isidentifier()


Dim: TypeAlias = int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the kit asks.

    Attributes:
        operation: "static_reshape", "dynamic_reshape" or "reshape" (Reshape-1 of OpenVINO).
        data: the shape of the data; None: not even its rank is known.
        shape: the target; None: not even its length is known.
        special_zero: None where the question leaves it out, which is to be rejected.
        expected: an output shape that the caller counts on; None: none.
        strides: of the data, in elements; None: row-major.
        data_type: such as "f32"; None: any will do.
        payload: the bytes of the data, to be reshaped for real; None: only the shape is asked for.
        is_malformed: whether an entry does not fit its number or its place, a coefficient or divisor is 0, or a name
            or the number of names is beyond the limits of the messages. No library has a form for this.
    """

    operation: str
    data: tuple[Dim, ...] | None
    shape: tuple[Dim, ...] | None
    special_zero: bool | None
    expected: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] | None = None
    data_type: str | None = None
    payload: bytes | None = None
    is_malformed: bool = False

    @property
    def is_known(self) -> bool:
        """Whether every dim and every item is a number."""
        return are_known(self.data) and are_known(self.shape)


def are_known(dims: Sequence[Dim] | None) -> bool:
    """Whether every dim is a number."""
    return dims is not None and all(isinstance(dim, int) for dim in dims)


def multiply_most(dims: Sequence[Dim]) -> int:
    """Returns the most that the dims multiply to without those that are 0; one without an end is taken at its least."""
    return prod(max(1, abs(dim) if isinstance(dim, int) else max(dim.min, dim.max or 0)) for dim in dims)


def read_question(query: Mapping[str, Any]) -> Question:
    """Returns a question from its JSON."""
    question = query["question"]
    data, operation = question["data"], question["operation"].removeprefix("OPERATION_").lower()
    data_type = data.get("dataType", "").removeprefix("DATA_TYPE_").lower()
    shapes = (
        (data.get("shape"), "dims"),
        (question.get("shape"), "items"),
        (question.get("expectedShape"), "dims"),
    )
    entries = [entry for shape, _ in shapes for entry in (shape or {}).get("partial", [])]
    names = [name for entry in entries for name in _list_names(entry)]
    return Question(
        operation=operation,
        data=tuple(data.get("dims", [])) if "data" in data else read_shape(data.get("shape")),
        shape=read_shape(question.get("shape"), "items"),
        special_zero=question.get("specialZero"),
        expected=read_shape(question.get("expectedShape")),
        strides=tuple(data["strides"]) if data.get("strides") else None,
        data_type=data_type or None,
        payload=b64decode(data["data"]) if "data" in data else None,
        is_malformed=any(_is_malformed(shape, key) for shape, key in shapes) or len(names) > _MAX_NAMES,
    )


def _is_malformed(shape: Mapping[str, Any] | None, numbers: str) -> bool:
    listed = dict(enumerate((shape or {}).get(numbers, [])))
    entries = (shape or {}).get("partial", [])
    indexes = [entry["index"] for entry in entries]
    return indexes != sorted(set(indexes)) or any(
        listed.get(entry["index"]) != -1
        or 0 in _list_factors(entry.get("expression", {}))
        or ("expression" in entry and not 1 <= len(_list_names(entry)) <= _MAX_LENGTH)
        or any(not 1 <= len(name) <= _MAX_LENGTH or not name.isprintable() for name in _list_names(entry))
        for entry in entries
    )


def _list_names(entry: Mapping[str, Any]) -> list[str]:
    expression = entry.get("expression", {})
    symbols = [*expression.get("factors", []), *expression.get("divisors", [])]
    return [symbol["name"] for symbol in (*symbols, *([entry["symbol"]] if "symbol" in entry else []))]


def _list_factors(expression: Mapping[str, Any]) -> list[int]:
    return [expression.get("coefficient", 1), expression.get("divisor", 1)]


def read_shape(record: Mapping[str, Any] | None, numbers: str = "dims") -> tuple[Dim, ...] | None:
    """Returns the dims of a shape, or the items of a target, whose numbers are called `items`."""
    if record is None:
        return None
    dims: list[Dim] = [*record.get(numbers, [])]
    if numbers == "dims":  # in a target, -1 is an instruction
        dims = [Unknown() if dim == -1 else dim for dim in dims]
    for entry in record.get("partial", []):
        if entry["index"] < len(dims):
            dims[entry["index"]] = _read_partial(entry)
    return tuple(dims)


def write_answer(dims: Iterable[Dim] | None, payload: bytes | None = None) -> Json:
    """Returns the JSON of an answer. None: not even the rank is known."""
    listed = None if dims is None else [*dims]
    if payload is not None:
        return {"output": {"dims": listed, "data": b64encode(payload).decode()}}
    return {"answer": {} if listed is None else {"shape": _write_shape(listed)}}


def _read_partial(entry: Mapping[str, Any]) -> Unknown:
    match entry:
        case {"interval": bounds}:
            name = None
        case {"symbol": symbol}:
            name, bounds = symbol["name"], symbol.get("bounds", {})
        case {"expression": expression}:
            name, bounds = _write_product(expression), expression.get("bounds", {})
        case _:
            return Unknown()
    return Unknown(bounds.get("min", 0), bounds.get("max"), name)


def _write_product(expression: Mapping[str, Any]) -> str:
    """Returns an expression as text, such as "4*C" or "N^2/(2*M)"."""
    above = _write_factors(expression.get("coefficient", 1), expression.get("factors", []))
    below = _write_factors(expression.get("divisor", 1), expression.get("divisors", []))
    return above if below == "1" else f"{above}/({below})" if "*" in below else f"{above}/{below}"


def _write_factors(number: int, symbols: Sequence[Mapping[str, Any]]) -> str:
    powers = Counter(symbol["name"] for symbol in symbols)
    quoted = {name: name if name.isidentifier() else f"({name})" for name in powers}
    factors = [f"{quoted[name]}^{power}" if power > 1 else quoted[name] for name, power in powers.items()]
    return "*".join([str(number), *factors] if number != 1 or not factors else factors)


def _write_shape(dims: Sequence[Dim]) -> Json:
    partial = [{"index": index, **_write_unknown(dim)} for index, dim in enumerate(dims) if isinstance(dim, Unknown)]
    return {"dims": [dim if isinstance(dim, int) else -1 for dim in dims], "partial": partial}


def _write_unknown(dim: Unknown) -> Json:
    if dim == Unknown():
        return {}
    bounds = {"min": dim.min} if dim.max is None else {"min": dim.min, "max": dim.max}
    if dim.name is None:
        return {"interval": bounds}
    if dim.name.isidentifier() or _PRODUCT.fullmatch(dim.name) is None:
        return {"symbol": {"name": dim.name, "bounds": bounds}}
    above, _, below = dim.name.partition("/")
    coefficient, factors = _read_factors(above)
    divisor, divisors = _read_factors(below.strip(" ()") or "1")
    if not factors and not divisors:  # a name that is a number
        return {"symbol": {"name": dim.name, "bounds": bounds}}
    numbers = {"coefficient": coefficient, "divisor": divisor}
    return {"expression": {**numbers, "factors": factors, "divisors": divisors, "bounds": bounds}}


def _read_factors(text: str) -> tuple[int, list[Json]]:
    number, names = 1, list[str]()
    for factor in text.split("*"):
        name, _, power = factor.strip().partition("^")
        name = name.strip("()")
        if name.isdecimal() and name.isascii():
            number *= int(name) ** int(power or 1)
        else:
            names += [name] * int(power or 1)
    return number, [{"name": name} for name in names]
