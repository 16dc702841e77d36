"""Tables of reference pages that you can link to, and that fit a narrow window.

- If the first cell of a row begins with code, such as a flag or an error reason, the row has an anchor of that name and
  the code is a link to it: `reference/configuration.html#max-calls`. If a name stands several times on a page, as the
  flags of commands do, the anchor begins with the section: `#serve-check-config`.
- A table of sentences becomes a list of cards in a narrow window: its header row is hidden, and each cell shows the
  name of its column. With many columns it has this form in every window. The stylesheet does both.
- A flag such as `--max-calls` does not break at its hyphens. Long code, such as a path, breaks after `/`, `.` and `_`.
"""

import re
from collections import Counter
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

_AFTER_THE_THEME = 900
_LINKED = "reference/"
_NARROW_COLUMNS, _WIDE_COLUMNS = 3, 6
_SENTENCE = 40
"""From so many characters on, a cell is one to read in lines."""
_TABLE = re.compile(r'<table class="docutils align-default">(.*?)</table>', re.DOTALL)
_HEAD = re.compile(r'<th class="head"><p>(.*?)</p></th>', re.DOTALL)
_ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_FLAG = re.compile(r'<span class="pre">(--?[a-z][\w-]*)</span>')
_ANY_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_LONG_CODE = re.compile(r'(?<=<span class="pre">)[^<]{14,}(?=</span>)')
_BREAK = re.compile(r"(?<=[/._])(?=\w)")
_ROLES = {
    "<thead>": '<thead role="rowgroup">',
    "<tbody>": '<tbody role="rowgroup">',
    "<tr ": '<tr role="row" ',
    "<th ": '<th role="columnheader" ',
    "<td": '<td role="cell"',
}
"""Browsers forget what a table is if its parts are shown as blocks."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("doctree-read", _add_anchors)
    app.connect("html-page-context", _mark, priority=_AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_anchors(app: Sphinx, doctree: nodes.document) -> None:
    page = app.env.docname
    if not page.startswith(_LINKED):
        return
    rows = list(_find_named_rows(doctree))
    counts = Counter(name for _, _, name in rows)
    is_unique = max(counts.values(), default=1) == 1
    for row, literal, name in rows:
        anchor = name if is_unique else f"{_find_section(row)}-{name}"
        row["ids"].append(anchor)
        app.env.domains.standard_domain.note_hyperlink_target(f"{page}-{anchor}", page, anchor, name)
        literal.replace_self(nodes.reference("", "", literal.deepcopy(), refid=anchor, internal=True, classes=["row"]))


def _find_named_rows(doctree: nodes.document) -> Iterator[tuple[nodes.row, nodes.literal, str]]:
    """Yields each row whose first cell begins with code, that code, and its name."""
    for body in doctree.findall(nodes.tbody):
        for row in body.findall(nodes.row):
            (first, *_) = row.children
            literal = next(iter(first.findall(nodes.literal)), None)
            if literal is not None and first.astext().startswith(literal.astext()):
                yield row, literal, literal.astext().lstrip("-")


def _find_section(node: nodes.Node | None) -> str:
    while node is not None and not isinstance(node, nodes.section):
        node = node.parent
    return str(node["ids"][0]) if node is not None else ""


def _mark(_app: Sphinx, _page: str, _template: str, context: dict[str, object], *_: object) -> None:
    text = _FLAG.sub(r'<span class="pre flag">\1</span>', str(context.get("body", "")))
    context["body"] = _TABLE.sub(_label, _ANY_TABLE.sub(_add_breaks, text))


def _add_breaks(table: re.Match[str]) -> str:
    return _LONG_CODE.sub(lambda code: _BREAK.sub("<wbr>", code[0]), table[0])


def _label(table: re.Match[str]) -> str:
    """Returns a table with the name of its column in each cell, if it is one of sentences."""
    names = [_TAG.sub("", head) for head in _HEAD.findall(table[1])]
    is_read = any(len(_TAG.sub("", cell).strip()) >= _SENTENCE for cell in table[1].split("<td>")[1:])
    if not is_read or len(names) < _NARROW_COLUMNS:
        return table[0]
    text = _ROW.sub(lambda row: _label_cells(row[0], names), table[1])
    for part, with_role in _ROLES.items():
        text = text.replace(part, with_role)
    form = "cards" if len(names) >= _WIDE_COLUMNS else "cards-if-narrow"
    return f'<table role="table" class="docutils align-default {form}">{text}</table>'


def _label_cells(row: str, names: list[str]) -> str:
    start, *cells = row.split("<td>")
    labels = names if cells else []  # the header row has none
    return start + "".join(f'<td data-label="{name}">{cell}' for name, cell in zip(labels, cells, strict=True))
