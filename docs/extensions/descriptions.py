"""The description of each page for search engines: the beginning of its first paragraph."""

import html

from docutils import nodes
from sphinx.application import Sphinx

_MAX_LENGTH = 160


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("html-page-context", _describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _describe(
    _app: Sphinx, _page: str, _template: str, context: dict[str, object], doctree: nodes.document | None
) -> None:
    paragraph = None if doctree is None else next(iter(doctree.findall(nodes.paragraph)), None)
    if paragraph is None:
        return
    text = " ".join(paragraph.astext().split())
    if len(text) > _MAX_LENGTH:
        text = text[: text.rindex(" ", 0, _MAX_LENGTH)] + " ..."
    context["metatags"] = f'{context.get("metatags", "")}<meta name="description" content="{html.escape(text)}">\n'
