"""The command that computes one reshape with the rules of tensor-reshape and with several libraries.

Invariants:

- This process imports none of the libraries. Each answer of a library comes from a separate process. If a library
  crashes or hangs, the failure is its answer, and the answers of the other libraries are not lost.
- The process of a library gets only the query, the environment variable `CI`, and the environment variables in
  `_VARIABLES`. It returns no element of the output.
- If the user interrupts the command with Ctrl-C, the command kills the processes of the libraries before it ends.
- If a library is not installed, the command shows its recorded answer. A recorded answer is never shown if a library is
  installed but broken.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import click

from tensor_reshape.cli import library_reshapes
from tensor_reshape.cli.library_reshapes import HAVE_SPECIAL_ZERO, LIBRARIES, LibraryQuery
from tensor_reshape.cli.options import JSON_OPTION, SHAPE
from tensor_reshape.client import ReshapeError, ShapeQuery, infer_locally
from tensor_reshape.rules.operations import SHAPE_OPERATIONS

_Answer = dict[str, Any]
"""An answer in the form of JSON, with the name of the rules or of the library, and specialZero."""

RECORDED = Path(__file__).with_name("recorded_reshapes.json")

_MAX_ELEMENTS = 1 << 20
_SECONDS = 60.0  # the limit is long, because the first import of a large library takes many seconds
_VARIABLES = (
    "HOME",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "SYSTEMROOT",
)
"""The environment variables with which Python finds its packages. Windows needs SYSTEMROOT to start Python."""

_MEANINGS = {True: "a 0 copies a dimension", False: "a 0 is a size"}
_EPILOG = f"""
The rules answer first, with the reasons of their rejections. Then numpy, torch, onnxruntime and OpenVINO execute the
reshape with f32 zeros on the CPU, as far as they are installed in the same environment. Each answer comes from a
process of its own, which may take {_SECONDS:g} seconds. If a library rejects the reshape, its answer is the error's
class. onnxruntime gets SHAPE as an input of the model. For some shapes, the answers of libraries that are not installed
are recorded.

If SHAPE contains a 0, rules and libraries with special_zero or allowzero have two answers. The exit code is 0, whether
the answers agree or not.
"""


@click.command(epilog=_EPILOG, context_settings={"ignore_unknown_options": True})  # because SHAPE may begin with -1
@click.argument("data", type=SHAPE)
@click.argument("shape", type=SHAPE)
@JSON_OPTION
def compare(*, data: Sequence[int], shape: Sequence[int], as_json: bool) -> None:
    """Show what numpy, torch, onnxruntime and OpenVINO do with a reshape of DATA, such as [2,3], to SHAPE."""
    _check_sizes(data, shape)
    answers = [*_apply_rules(data, shape), *_ask_libraries(data, shape)]
    for one in answers:
        if "dims" in one and prod(one["dims"]) > prod(data):
            one["readsOutside"] = True
    if as_json:
        agree = len({outcome for one in answers if (outcome := _name_outcome(one))}) == 1
        click.echo(json.dumps({"data": data, "shape": shape, "agree": agree, "answers": answers}))
    else:
        click.echo("\n".join(_write_report(data, shape, answers)))


def ask_libraries(queries: Sequence[LibraryQuery]) -> list[_Answer | None]:
    """Executes each query with its library. All queries run at the same time, each in a separate process.

    Returns:
        for each query, the answer of the library. If the library cannot be used, or if its process failed, the value
        describes this failure. A value is None if the library is not installed.
    """

    async def ask_all() -> list[_Answer | None]:
        return await asyncio.gather(*map(_ask_library, queries))

    return asyncio.run(ask_all())


def list_queries(data: Sequence[int], shape: Sequence[int]) -> list[LibraryQuery]:
    """Returns one query for each library, or two if the shape has a 0 and the library has an option for the 0."""
    return [
        LibraryQuery(name, data, shape, special_zero)
        for name in LIBRARIES
        for special_zero in ((True, False) if 0 in shape and name in HAVE_SPECIAL_ZERO else (False,))
    ]


async def _ask_library(query: LibraryQuery) -> _Answer | None:
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}  # noqa: TID251 - no settings
    done: _Answer = {"name": query.name, "specialZero": query.special_zero}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", library_reshapes.__file__),
        env={**variables, "CI": "true"},  # with this variable, openvino sends no telemetry
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(json.dumps(query).encode()), _SECONDS)
    except TimeoutError:
        return {**done, "failure": f"no answer in {_SECONDS:g} seconds"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    code = process.returncode or 0
    if code or not output:
        return {**done, "failure": f"crashed by signal {-code}" if code < 0 else f"ended with exit code {code}"}
    found = json.loads(output)
    return found and {**done, **found}


def _check_sizes(data: Sequence[int], shape: Sequence[int]) -> None:
    if min(data, default=0) < 0:
        raise click.BadParameter("each size must be at least 0", param_hint="'DATA'")
    copied = [item or (data[index] if index < len(data) else 1) for index, item in enumerate(shape)]
    for name, dims in (("DATA", data), ("SHAPE", copied)):
        # A size of 0 counts as 1, because some libraries leave out sizes of 0 when they multiply the sizes.
        if prod(abs(dim) or 1 for dim in dims) > _MAX_ELEMENTS:
            message = f"more than {_MAX_ELEMENTS} elements (a 0 counts as 1), which is too large to execute"
            raise click.BadParameter(message, param_hint=f"'{name}'")


def _apply_rules(data: Sequence[int], shape: Sequence[int]) -> Iterator[_Answer]:
    names = [operation.name for operation in SHAPE_OPERATIONS.values()]
    choices = [(name, zero) for name in names for zero in ((True, False) if 0 in shape else (False,))]
    queries = [ShapeQuery(data_shape=data, shape=shape, special_zero=zero, operation=name) for name, zero in choices]
    for (name, zero), result in zip(choices, infer_locally(queries), strict=True):
        if isinstance(result, ReshapeError):
            found: _Answer = {"rejection": {"reason": result.reason, "message": result.message}}
        else:
            found = {"dims": result.dims}
        yield {"name": name, "specialZero": zero, **found}


def _ask_libraries(data: Sequence[int], shape: Sequence[int]) -> list[_Answer]:
    """Returns an answer for each library. A library that is not installed has its recorded answer, if there is one."""
    queries = list_queries(data, shape)
    recorded = json.loads(RECORDED.read_text())
    known = {
        (one["name"], one["specialZero"]): {**one, "version": recorded["versions"][one["name"]], "recorded": True}
        for row in recorded["queries"]
        if (row["data"], row["shape"]) == ([*data], [*shape])
        for one in row["answers"]
    }
    pairs = zip(queries, ask_libraries(queries), strict=True)
    return [answer or known.get((query.name, query.special_zero)) or _report_missing(query) for query, answer in pairs]


def _report_missing(query: LibraryQuery) -> _Answer:
    reason = f"not installed: pip install {query.name}"
    return {"name": query.name, "specialZero": query.special_zero, "unusable": reason}


def _name_outcome(answer: _Answer) -> str | None:
    """Returns a text by which answers are compared: the output shape, "rejected", or a failure.

    The result is None if the library gave no answer.
    """
    if "dims" in answer:
        return _format_dims(answer["dims"])
    return "rejected" if "rejection" in answer or "error" in answer else answer.get("failure")


def _format_dims(dims: Sequence[int]) -> str:
    return f"[{','.join(map(str, dims))}]"


def _write_report(data: Sequence[int], shape: Sequence[int], answers: Sequence[_Answer]) -> Iterator[str]:
    """Yields the lines of the report.

    The report has a summary, a table with a column for each meaning of a 0, and sentences that explain the table.
    """
    yield from _summarize(answers)
    yield ""
    names = {one["name"]: f"{one['name']} *" if "recorded" in one else one["name"] for one in answers}
    meanings = {zero: text for zero, text in _MEANINGS.items() if any(one["specialZero"] is zero for one in answers)}
    title = f"{_format_dims(data)} to {_format_dims(shape)}"
    rows = [[title, *(f"if {text}" for text in meanings.values())] if 0 in shape else [title, ""]]
    cells = {(one["name"], one["specialZero"]): _write_cell(one, prod(data)) for one in answers}
    rows += [[shown, *(cells.get((name, zero), "-") for zero in meanings)] for name, shown in names.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield from ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    sentences = [f"{found['reason']}: {found['message']}" for one in answers if (found := one.get("rejection"))]
    recorded = dict.fromkeys(f"{one['name']} {one['version']}" for one in answers if "recorded" in one)
    if recorded:
        sentences.append(f"* not executed here, recorded with {_join([*recorded])}")
    yield from ["", *dict.fromkeys(sentences)] if sentences else []


def _summarize(answers: Sequence[_Answer]) -> Iterator[str]:
    """Yields the first lines of the report.

    If the answers agree for each meaning of a 0, this is one line. Otherwise, there is a line for each meaning for
    which the answers differ.
    """
    groups: dict[bool, dict[str, list[str]]] = {}
    for one in answers:
        if outcome := _name_outcome(one):
            groups.setdefault(one["specialZero"], {}).setdefault(outcome, []).append(one["name"])
    texts = {zero: next(iter(found)) for zero, found in groups.items()}
    if all(len(found) == 1 for found in groups.values()):
        meanings = ", ".join(f"{text} if {_MEANINGS[zero]}" for zero, text in texts.items())
        same = len(set(texts.values())) == 1
        yield (
            f"All answers agree: {texts[False]}" if same else f"The answers differ only by the meaning of 0: {meanings}"
        )
    for zero, found in groups.items():
        if len(found) > 1:
            *few, (most, _) = sorted(found.items(), key=lambda group: len(group[1]))
            outcomes = [*(f"{outcome} by {_join(names)}" for outcome, names in few), f"{most} by the others"]
            yield f"The answers differ{f' if {_MEANINGS[zero]}' if len(groups) > 1 else ''}: {'; '.join(outcomes)}"


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _write_cell(answer: _Answer, elements: int) -> str:
    if "dims" not in answer:
        reason = answer.get("rejection", {}).get("reason")
        return str(reason or next(answer[key] for key in ("error", "failure", "unusable") if key in answer))
    lost = elements - prod(answer["dims"])
    note = f", loses {lost} elements" if lost > 0 else ", reads memory outside the tensor" if lost < 0 else ""
    return f"{_format_dims(answer['dims'])}{note}"
