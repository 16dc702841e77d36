"""The command that checks the Reshape nodes of models."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensor_reshape.cli.check_formats import FORMATS, Checked, find_worst, write
from tensor_reshape.cli.lazy_commands import reject_missing_extra
from tensor_reshape.cli.options import JSON_OPTION, OPTIONAL_SERVER_OPTION, Connection, connection_options
from tensor_reshape.cli.parameter_types import InputShapes, NewFile, Words
from tensor_reshape.client import infer_locally

if TYPE_CHECKING:
    from tensor_reshape.onnx.checks import Ask

_FAIL_ON = Words(("rejected", "contradiction", "frozen", "restricted", "disagrees"))
_IR_BYTES = 4096  # of an XML file, in which the root of an IR must begin

_EPILOG = """
Prints one line for each node: its name, the data shape, the target shape, and the output shape. The library onnx made
names such as unk__3_onnx; the model does not contain them. Then prints what the model requires of its inputs, and
remarks. The last line has the verdict. With --explain, the source of each dim follows its node, and the conditions
include those that only exclude empty tensors.

The exit code is 2 if a file is not a model, 3 for a verdict of --fail-on or a rejected profile, and 7 if the check or a
profile is undecided. Of several files, the first of these codes counts.
"""


@click.command(epilog=_EPILOG)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--explain", is_flag=True, help="Show where each dim of each output comes from.")
@click.option("--write", type=NewFile(), help="Write a copy of the model, with the inferred shapes, to this file.")
@click.option(
    "--profile",
    "profiles",
    type=InputShapes(),
    multiple=True,
    help="Compute shapes of an input, for example images=1x3x512x512,4x3x512x512. Repeat the option for more inputs.",
)
@click.option("--no-probes", is_flag=True, help="Try no sizes of the inputs; use only the rules.")
@click.option(
    "--fail-on",
    type=_FAIL_ON,
    default="rejected,contradiction,frozen",
    show_default=True,
    help="Exit with 3 for these verdicts, with commas between them; also: restricted, disagrees.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="The output.")
@JSON_OPTION
@partial(connection_options, server_option=OPTIONAL_SERVER_OPTION)
def check(
    connection: Connection,
    *,
    models: Sequence[Path],
    as_json: bool,
    form: str,
    profiles: Sequence[tuple[str, tuple[tuple[int, ...], ...]]],
    **options: Any,
) -> None:
    """Check the Reshape nodes of models, and show what the models require of their inputs.

    A model is an ONNX file, or an OpenVINO IR that consists of model.xml and model.bin. In a folder, every model is
    checked. The shapes of a model are computed for sizes. The model is not run, and its weights are not read. ONNX
    nodes follow the rules of ONNX, and IR layers those of Reshape-1. Without --server, no server is needed.
    """
    form = "json" if as_json else form
    shapes = _combine_profiles(profiles)
    is_list = len(models) > 1 or models[0].is_dir()
    if options["write"] is not None and is_list:
        raise click.UsageError("--write needs a single model")
    paths = [path for model in models for path in _list_models(model)]
    if not connection.server:
        checked = [_check(infer_locally, path, shapes, **options) for path in paths]
    else:
        with connection.open() as client:
            checked = [_check(client.infer_shapes, path, shapes, **options) for path in paths]
    for one in checked:
        if one.error and form != "json":
            click.echo(f"Error: {one.path}: {one.error}", err=True)
    text = write(checked, form, explain=options["explain"], is_list=is_list)
    if text:
        click.echo(text)
    code = find_worst(checked)
    if code:
        raise click.exceptions.Exit(code)


class _ProfileFault(click.ClickException):
    """The shapes of a profile do not fit the model."""

    exit_code = 2  # this is the exit code for wrong usage


def _list_models(path: Path) -> Iterator[Path]:
    """Yields a file, or the models in a folder."""
    if not path.is_dir():
        yield path
        return
    found = [file for file in sorted(path.rglob("*")) if file.is_file() and _is_model(file)]
    if not found:
        raise click.UsageError(f"{path} has no file *.onnx and no OpenVINO IR")
    yield from found


def _is_model(file: Path) -> bool:
    if file.suffix != ".xml":
        return file.suffix == ".onnx"
    with file.open("rb") as opened:
        return b"<net" in opened.read(_IR_BYTES)


def _combine_profiles(options: Sequence[tuple[str, tuple[tuple[int, ...], ...]]]) -> list[dict[str, tuple[int, ...]]]:
    """Returns the input shapes of each profile. An input with a single shape has this shape in every profile."""
    by_input: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, shapes in options:
        by_input[name] = (*by_input.get(name, ()), *shapes)
    count = max(map(len, by_input.values()), default=0)
    for name, shapes in by_input.items():
        if len(shapes) not in {1, count}:
            message = (
                f"--profile has {len(shapes)} shapes for {name} and {count} for another input: use as many, or one"
            )
            raise _ProfileFault(message)
    return [{name: shapes[place % len(shapes)] for name, shapes in by_input.items()} for place in range(count)]


def _check(  # the options of the command
    ask: "Ask",
    model: Path,
    profiles: Sequence[Mapping[str, Sequence[int]]],
    *,
    write: Path | None,
    fail_on: frozenset[str],
    no_probes: bool,
    **_: object,
) -> Checked:
    """Checks one file. Writes the model if `write` is set."""
    try:  # the optional onnx package is imported only here, because the help of the command does not need it
        from tensor_reshape.onnx import (  # noqa: PLC0415
            ModelError,
            ProfileError,
            annotate_model,
            check_model,
            check_profile,
        )
        from tensor_reshape.onnx.probes import SECONDS  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise reject_missing_extra(error, name="check", extra="onnx") from None
    if write is not None and write.exists() and write.samefile(model):
        raise click.UsageError(f"--write {write} is the model itself: name another file")
    try:
        tested = [check_profile(model, shapes) for shapes in profiles]
        seconds = 0 if no_probes else SECONDS
        if write is None:
            report = check_model(model, ask=ask, probe_seconds=seconds)
        else:
            report, annotated = annotate_model(model, ask=ask, probe_seconds=seconds)
    except ProfileError as error:
        raise _ProfileFault(f"--profile: {error}") from None
    except ModelError as error:
        return Checked(path=model, error=str(error))
    except ConnectionError:  # about the server, not about the file
        raise
    except OSError as error:
        return Checked(path=model, error=f"{error.filename}: {error.strerror}")
    if write is not None:
        from tensor_reshape.cli.destinations import write_file  # noqa: PLC0415 - it imports numpy

        write_file(write, annotated.SerializeToString())
    return Checked(path=model, report=report, profiles=tested, fail_on=fail_on)
