"""Mends what axe finds in pages as the theme makes them.

- The keyboard must reach a block of code or a table that is wider than the page, because its reader scrolls it.
- The parameters of a long signature are a list of definitions in which nothing is defined. They become blocks.
"""

import re

from sphinx.application import Sphinx

_AFTER_THE_THEME = 900
_MENDED = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
_PARAMETERS = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("html-page-context", _mend, priority=_AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mend(_app: Sphinx, _page: str, _template: str, context: dict[str, object], *_: object) -> None:
    text = str(context.get("body", ""))
    for found, mended in _MENDED.items():
        text = text.replace(found, mended)
    context["body"] = _PARAMETERS.sub(_write_as_blocks, text)


def _write_as_blocks(parameters: re.Match[str]) -> str:
    lines = parameters[1].replace("<dd>", '<span class="parameter-line">').replace("</dd>", "</span>")
    return f'<span class="parameter-lines">{lines}</span>'
