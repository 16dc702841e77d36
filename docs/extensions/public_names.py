"""What the reference of Python calls things by: the names that users import and write.

- What is documented as `tensor_reshape.client.Dim` is found by where it is defined as well, so that signatures link.
- A union with a name is written by its name: `ArrayLike` of numpy, `DimLike`, `OperationName`.
- A type alias has the docstring below its definition. autodoc finds only the docstring of the type's class.
"""

from typing import Any

import numpy as np
from docutils.nodes import Element
from numpy.typing import ArrayLike, NDArray
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

from tensor_reshape.client import DimLike, OperationName

PUBLIC = "tensor_reshape.client"
_HOMES = {
    f"{PUBLIC}.DataTypeLike": "tensor_reshape.client.arguments",
    f"{PUBLIC}.DimLike": "tensor_reshape.client.queries",
    f"{PUBLIC}.OperationName": "tensor_reshape.rules.operations",
    f"{PUBLIC}.Progress": "tensor_reshape.client.progress",
}
"""The module that defines each public type alias."""

_NAMES: dict[Any, str] = {
    ArrayLike: "~numpy.typing.ArrayLike",
    NDArray[np.generic]: "~numpy.ndarray",
    DimLike: f"~{PUBLIC}.DimLike",
    OperationName: f"~{PUBLIC}.OperationName",
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-process-docstring", _describe_alias)
    app.connect("missing-reference", _find_public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _describe_alias(_app: Sphinx, _kind: str, name: str, _alias: object, _options: object, lines: list[str]) -> None:
    if name in _HOMES:
        docstrings = ModuleAnalyzer.for_module(_HOMES[name]).find_attr_docs()
        lines[:] = docstrings["", name.rpartition(".")[2]]


def _shorten(*event: str | None) -> tuple[str | None, ...]:
    """Returns the signature and what is returned, the last two arguments of the event, with the names of unions."""
    return tuple(text and _name_unions(text) for text in event[-2:])


def _name_unions(text: str) -> str:
    for union, name in _NAMES.items():
        text = text.replace(stringify_annotation(union, "smart"), name)
    return text


def _find_public(_app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element) -> Element | None:
    """Returns a link to what is documented by its public name."""
    target = str(node.get("reftarget", ""))
    if not target.startswith("tensor_reshape."):
        return None
    name = f"{PUBLIC}.{target.rpartition('.')[2]}"
    return env.domains["py"].resolve_xref(env, node["refdoc"], env.app.builder, "obj", name, node, content)
