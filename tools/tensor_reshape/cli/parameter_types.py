"""Defines the types of the command line parameters.

Invariant: this module imports numpy and grpc only when the value of a parameter needs them. The help and the completion
of a word import neither numpy nor grpc.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tensor_reshape.client.arguments import check_target
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.dtypes import DataType, find_data_type
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_shape, split_items
from tensor_reshape.rules.operations import SHAPE_OPERATIONS, find_operation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tensor_reshape.wire.arrays import Array

    _Type = click.ParamType[Any]
else:
    # older releases of click do not accept a type parameter of this class
    _Type = click.ParamType

_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")  # Python converts no text with more than 4,300 digits to an int
_SIZE = re.compile(r"[0-9]{1,19}")
_URL = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>[^/]+)(/.*)?")


class Dims(_Type):
    """The parameter type of a shape, written as numbers with commas or an x between them, with or without brackets.

    An empty text is the shape of a scalar.
    """

    name = "dims"

    def __init__(self, *, unknown: bool) -> None:
        """Creates the type. If `unknown` is True, the type also accepts ? for an unknown dim."""
        self._unknown = unknown

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int | None]:
        """Returns the dims, with None for each unknown dim."""
        text = _record(value, param, ctx)
        dims = self._parse(text)
        if dims is None:
            self.fail(f"{text!r} is not a shape: {self._advise(text)}", param, ctx)
        return dims

    def _parse(self, text: str) -> Sequence[int | None] | None:
        """Returns the dims in a text, or None if the text is not a shape."""
        items = split_items(text)
        if items is None or not all(
            _NUMBER.fullmatch(one.text) or (self._unknown and one.text == "?") for one in items
        ):
            return None
        return tuple(None if item.text == "?" else int(item.text) for item in items)

    def _advise(self, text: str) -> str:
        if text.startswith("@"):
            return "this operation takes only numbers; dynamic and reshape also take a file"
        if self._parse(with_commas := text.replace("x", ",")) is not None:
            return f"write {with_commas}"
        example = "or ? for any dimension, for example 2,3,?" if self._unknown else "for example 2,3,-1"
        return f"write numbers separated by commas, {example}"


class PartialShape(NamedTuple):
    """A partially known shape as the value of an option.

    Options need this class, because the value None means that the user has not set an option.

    Attributes:
        dims: the dims. The dims are None if the rank is unknown.
    """

    dims: tuple[AnyDim, ...] | None


class PartialDims(_Type):
    """The parameter type of a partially known shape. Its dims or its rank may be unknown."""

    name = "dims"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PartialShape:
        """Returns the partially known shape."""
        text = _record(value, param, ctx)
        try:
            return PartialShape(parse_shape(text, self.name))
        except InvalidRequestError as error:
            message, with_commas = error.message, text.replace("x", ",")
            with suppress(InvalidRequestError):
                parse_shape(with_commas, self.name)
                message = f"{text!r} is not a shape: write {with_commas}"
            # The cause is kept, because the field of `error` contains the index of the item that is wrong.
            raise click.BadParameter(message, ctx, param) from error


class TargetArgument(_Type):
    """The parameter type of a requested shape, written as numbers or as @ and the name of a file with an array."""

    name = "dims|@file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Sequence[int] | Array":
        """Returns the requested shape as numbers, or as an array with its element type."""
        text = str(value)
        if text.startswith("@"):
            from tensor_reshape.cli.sources import read_array  # noqa: PLC0415 - it imports numpy

            return read_array(text.removeprefix("@"))
        # `Dims(unknown=False)` never returns None as a dim, so the condition is only for type checkers.
        return [dim for dim in Dims(unknown=False).convert(value, param, ctx) if dim is not None]


class InputShapes(_Type):
    """The parameter type of a model input and its shapes, such as `images=1x3x512x512,4x3x512x512`.

    If the text after the = has only numbers and commas, it is one shape, as in `images=1,3,512,512`. If it is empty, it
    is the shape of a scalar.
    """

    name = "input=shapes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[tuple[int, ...], ...]]:
        """Returns the name of the input and its shapes."""
        text = str(value)
        name, found, shapes = text.rpartition("=")
        if not found or not name:
            self.fail(f"{text!r} has no input name: write INPUT=SHAPE, for example images=1x3x512x512", param, ctx)
        single = self._parse(shapes)
        if single is not None:
            return name, (single,)
        found_shapes = [(shape, self._parse(shape)) for shape in shapes.split(",")]
        for shape, sizes in found_shapes:
            if sizes is None:
                self.fail(f"{shape!r} is not a shape: write sizes, for example {name}=1x3x512x512", param, ctx)
        return name, tuple(sizes for _, sizes in found_shapes if sizes is not None)

    def _parse(self, text: str) -> tuple[int, ...] | None:
        """Returns the sizes in a text, or None if the text is not a shape."""
        items = split_items(text)
        if items is None or not all(_SIZE.fullmatch(item.text) and int(item.text) <= MAX_DIM for item in items):
            return None
        return tuple(int(item.text) for item in items)


class Word(_Type):
    """The parameter type of a word from a list."""

    def __init__(self, name: str, words: Iterable[object], find: Callable[[str], object]) -> None:
        """Creates the type, which accepts a text if `find` returns a value for it.

        If a text is not accepted, the error lists `words`. The completion in a shell also lists them.
        """
        self.name, self._words, self._find = name, [*map(str, words)], find

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - of click
        """Returns the value that `find` returns for the word."""
        found = self._find(str(value))
        if found is None:
            self.fail(f"{value!r} is not one of {', '.join(self._words)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Returns the words that begin with `incomplete`, for the completion in a shell."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed for completion

        return [CompletionItem(word) for word in self._words if word.startswith(incomplete.lower())]


class Words(Word):
    """The parameter type of several words from a list, with commas between them."""

    def __init__(self, words: Sequence[str]) -> None:
        """Creates the type, which accepts only these words."""
        super().__init__("words", words, lambda word: word if word in words else None)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        """Returns the set of the words."""
        return frozenset(super(Words, self).convert(word, param, ctx) for word in str(value).split(","))


DATA_TYPE = Word("type", DataType, find_data_type)
"""The parameter type of a data type, given by its name in the specifications or in numpy."""


OPERATION_NAME = Word("operation", SHAPE_OPERATIONS, lambda text: getattr(find_operation(text), "name", None))
"""The parameter type of an operation, given in any usual spelling. The value is its name in the SDK."""


class Seconds(click.FloatRange):
    """The parameter type of a number of seconds above 0."""

    def __init__(self) -> None:
        """Creates the type, which accepts any number above 0."""
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - of click
        """Returns the number of seconds."""
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):  # every comparison with NaN is false, so the range does not exclude NaN
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class ServerAddress(_Type):
    """The parameter type of the address of a server to call."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the address."""
        text = str(value)
        try:
            return check_target(text)
        except ValueError as error:
            url = _URL.fullmatch(text)
            if url is None:
                self.fail(str(error).removeprefix("target is "), param, ctx)
            tls = " and add --tls" if url["scheme"] in {"https", "grpcs"} else ""
            self.fail(f"{text!r} is a URL, but gRPC needs HOST:PORT: write {url['host']}{tls}", param, ctx)


class ListenAddress(ServerAddress):
    """The parameter type of the address of a server whose health is checked.

    The text may also be the value of the server's option --health-listen or --listen. Such a value can list several
    addresses.
    """

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the first address. If its host stands for all interfaces, localhost replaces the host."""
        address = next(iter(str(value).split()), "")
        host, _, port = address.rpartition(":")
        everywhere = host in {"0.0.0.0", "[::]"}  # noqa: S104 - compared, not bound
        return super().convert(f"localhost:{port}" if everywhere else address, param, ctx)


class NewFile(click.Path):
    """The parameter type of a file to write. A missing folder is reported before the command begins its work."""

    def __init__(self) -> None:
        """Creates the type, which accepts files and no folders."""
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - of click
        """Returns the path of the file."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"{path} cannot be written: there is no folder {path.parent}", param, ctx)
        return path


def _record(value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
    """Returns the text that the user has entered for an option, and stores the text for error messages."""
    if ctx is not None and param is not None and isinstance(ctx.obj, dict):
        ctx.obj[str(param.name)] = str(value)
    return str(value)
