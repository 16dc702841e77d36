"""Defines the types of the command line parameters.

Invariant: this module imports numpy and grpc only when the value of a parameter needs them. Showing help or completing
a word imports neither numpy nor grpc.
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

_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")  # Python converts texts of at most 4,300 digits to an int
_SIZE = re.compile(r"[0-9]{1,19}")
_URL = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>[^/]+)(/.*)?")


class Dims(_Type):
    """The parameter type of numbers separated by commas or an x, with or without brackets.

    An empty text is the shape of a scalar.
    """

    name = "dims"

    def __init__(self, *, unknown: bool) -> None:
        """Accepts ? for an unknown dim if `unknown` is True."""
        self._unknown = unknown

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int | None]:
        """Returns the dims, with None for each unknown dim."""
        text = _record(value, param, ctx)
        dims = self._parse(text)
        if dims is None:
            self.fail(f"{text!r} is not a shape: {self._advise(text)}", param, ctx)
        return dims

    def _parse(self, text: str) -> Sequence[int | None] | None:
        """Returns the dims, or None if the text is not a shape."""
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
    """A partially known shape.

    Options need this class, because the plain value None means that an option was not given.

    Attributes:
        dims: the dims. The dims are None if the rank is unknown.
    """

    dims: tuple[AnyDim, ...] | None


class PartialDims(_Type):
    """The parameter type of dims that may be unknown, or of a shape with unknown rank."""

    name = "dims"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PartialShape:
        """Returns the shape."""
        text = _record(value, param, ctx)
        try:
            return PartialShape(parse_shape(text, self.name))
        except InvalidRequestError as error:
            message, with_commas = error.message, text.replace("x", ",")
            with suppress(InvalidRequestError):
                parse_shape(with_commas, self.name)
                message = f"{text!r} is not a shape: write {with_commas}"
            # The field of `error` contains the index of the wrong item.
            raise click.BadParameter(message, ctx, param) from error


class TargetArgument(_Type):
    """The parameter type of a requested shape, given as numbers or as the name of a file with an array."""

    name = "dims|@file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Sequence[int] | Array":
        """Returns the numbers, or the array with its type."""
        text = str(value)
        if text.startswith("@"):
            from tensor_reshape.cli.sources import read_array  # noqa: PLC0415 - it imports numpy

            return read_array(text.removeprefix("@"))
        # `Dims(unknown=False)` never returns None as a dim. The condition is only for type checkers.
        return [dim for dim in Dims(unknown=False).convert(value, param, ctx) if dim is not None]


class InputShapes(_Type):
    """The parameter type of a model input and its shapes, such as `images=1x3x512x512,4x3x512x512`.

    If there are only numbers and commas, they are one shape, as in `images=1,3,512,512`. An empty text after the = is
    the shape of a scalar.
    """

    name = "input=shapes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[tuple[int, ...], ...]]:
        """Returns the name and the shapes."""
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
        """Returns the sizes, or None if the text is not a shape."""
        items = split_items(text)
        if items is None or not all(_SIZE.fullmatch(item.text) and int(item.text) <= MAX_DIM for item in items):
            return None
        return tuple(int(item.text) for item in items)


class Word(_Type):
    """The parameter type of one of several words."""

    def __init__(self, name: str, words: Iterable[object], find: Callable[[str], object]) -> None:
        """Accepts a text if `find` returns a value for it. An error and the completion show the words."""
        self.name, self._words, self._find = name, [*map(str, words)], find

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - of click
        """Returns the value of the word."""
        found = self._find(str(value))
        if found is None:
            self.fail(f"{value!r} is not one of {', '.join(self._words)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Returns the words that begin with `incomplete`."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed for completion

        return [CompletionItem(word) for word in self._words if word.startswith(incomplete.lower())]


class Words(Word):
    """The parameter type of words from a list, separated by commas."""

    def __init__(self, words: Sequence[str]) -> None:
        """Accepts these words."""
        super().__init__("words", words, lambda word: word if word in words else None)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        """Returns the words."""
        return frozenset(super(Words, self).convert(word, param, ctx) for word in str(value).split(","))


DATA_TYPE = Word("type", DataType, find_data_type)
"""The parameter type of a data type, given by its name in the specifications or in numpy."""


OPERATION_NAME = Word("operation", SHAPE_OPERATIONS, lambda text: getattr(find_operation(text), "name", None))
"""The parameter type of an operation, given in any usual spelling. The value is its name in the SDK."""


class Seconds(click.FloatRange):
    """The parameter type of a time above 0."""

    def __init__(self) -> None:
        """Accepts any time above 0."""
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - of click
        """Returns the number of seconds."""
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):  # every comparison with NaN is false, so the range does not exclude it
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class ServerAddress(_Type):
    """The parameter type of a server address."""

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
    """The parameter type of a server address for a health probe.

    The text may also be the value of the server's settings --health-listen and --listen.
    """

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the first address, with localhost instead of an address that stands for all interfaces."""
        address = next(iter(str(value).split()), "")
        host, _, port = address.rpartition(":")
        everywhere = host in {"0.0.0.0", "[::]"}  # noqa: S104 - compared, not bound
        return super().convert(f"localhost:{port}" if everywhere else address, param, ctx)


class NewFile(click.Path):
    """A file to write. A missing folder is reported before the work begins."""

    def __init__(self) -> None:
        """Accepts files, not folders."""
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - of click
        """Returns the path."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"{path} cannot be written: there is no folder {path.parent}", param, ctx)
        return path


def _record(value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
    """Returns the text of an option, and stores the text for error messages."""
    if ctx is not None and param is not None and isinstance(ctx.obj, dict):
        ctx.obj[str(param.name)] = str(value)
    return str(value)
