"""Reads tables of ONNX models and of what a program returns for each of them.

A row is a name after `# `, a model in the syntax of `onnx.parser`, a line that begins with `with`, and indented lines.
An empty line ends a row.
"""

from typing import NamedTuple

import onnx
from onnx import parser

from documents import ROOT

_HEAD = '<ir_version: 10, opset_import: ["": 21, "x.y": 1]> '


class ModelRow(NamedTuple):
    """A row of a table.

    Attributes:
        name: what the model shows.
        model: the model.
        given: the words after `with`.
        lines: what a program returns.
    """

    name: str
    model: onnx.ModelProto
    given: list[str]
    lines: list[str]


def read_models(name: str) -> list[ModelRow]:
    """Returns the rows of a table in `tests/onnx`."""
    return [_read_row(text.splitlines()) for text in (ROOT / "tests/onnx" / name).read_text().split("\n\n")]


def _read_row(lines: list[str]) -> ModelRow:
    place = next(place for place, line in enumerate(lines) if line.startswith("with"))
    text = "\n".join(lines[1:place])
    model = parser.parse_model(text if text.startswith("<") else _HEAD + text)
    given = lines[place].split()[1:]
    return ModelRow(lines[0].removeprefix("# "), model, given, [line.strip() for line in lines[place + 1 :]])
