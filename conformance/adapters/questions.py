"""The questions of the kit as an adapter takes them, and the answers that it gives back.

- It is the standard library alone: an environment holds the library that is asked, and nothing of this project.
- A dim that is not known keeps all that is said of it; whether a library can be told as much is for its adapter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


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
    """

    operation: str
    data: tuple[Dim, ...] | None
    shape: tuple[Dim, ...] | None
    special_zero: bool | None
    expected: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] | None = None
    data_type: str | None = None
    payload: bytes | None = None

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


def read_question(question: Mapping[str, Any]) -> Question:
    """Returns a question from its JSON."""
    return Question(
        operation=question["operation"],
        data=_read_dims(question.get("data")),
        shape=_read_dims(question.get("shape")),
        special_zero=question.get("special_zero"),
        expected=_read_dims(question.get("expected")),
        strides=None if question.get("strides") is None else tuple(question["strides"]),
        data_type=question.get("data_type"),
        payload=None if question.get("bytes") is None else bytes.fromhex(question["bytes"]),
    )


def write_dims(dims: Iterable[Dim]) -> list[Any]:
    """Returns dims as the JSON of an answer."""
    return [dim if isinstance(dim, int) else _write_unknown(dim) for dim in dims]


def _read_dims(dims: Sequence[Any] | None) -> tuple[Dim, ...] | None:
    return None if dims is None else tuple(map(_read_dim, dims))


def _read_dim(dim: Any) -> Dim:
    match dim:
        case int():
            return dim
        case None | "?":
            return Unknown()
        case str():
            return _read_text(dim)
        case [low, high]:
            return Unknown(low, high)
        case _:
            return Unknown(dim.get("min", 0), dim.get("max"), dim.get("name"))


def _read_text(text: str) -> Unknown:
    """Returns a dim from "N", "4*C", "N:1..8" or "2..8"."""
    name, _, bounds = text.rpartition(":") if ":" in text else ("", "", text) if ".." in text else (text, "", "0..")
    low, high = bounds.split("..")
    return Unknown(int(low), int(high) if high else None, name or None)


def _write_unknown(dim: Unknown) -> Json | None:
    if dim == Unknown():
        return None
    return {"min": dim.min, "max": dim.max, **({} if dim.name is None else {"name": dim.name})}
