"""What makes a site of pages that are plain Markdown.

- The navigation is what `index.md` links to: a list of pages under each heading. A page in an indented list is a child
  of the page above it. `conformance.md` lists its reports in the same way. No page holds a toctree. If neither file
  lists a page, Sphinx warns.
- Each heading is a section of the sidebar that opens and closes. Only the section of the current page is open.
- A page of the repository outside `docs/` (`INCLUDED`) is a page of the site as well, and links to it lead there. Links
  to other files of the repository offer them for download.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

INDEX = "index"
LISTS = {INDEX, "conformance"}
"""The pages whose lists of links are the navigation."""
INCLUDED = {
    "CONTRIBUTING.md": "architecture/contributing.md",
    "SECURITY.md": "deployment/security-policy.md",
    "CHANGELOG.md": "architecture/changelog.md",
}
"""Pages outside `docs/`, and the page of the site that includes each."""

_AFTER_THE_THEME = 900
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_LISTED = re.compile(r"^( *)[-|] \[[^\]]*\]\(([^)#:]+)\.md\)", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")
_CAPTION = re.compile(r'<p class="caption"[^>]*>(.*?)</p>\n')
_CURRENT = 'class="current'


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("source-read", _complete)
    app.connect("html-page-context", _fold_sections, priority=_AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Redirects the links of a page and appends the pages that follow below it in the navigation."""
    text = _LINK.sub(lambda link: _redirect(page, link[1]), source[0])
    toctrees = list(_build_toctrees(text)) if page in LISTS else []
    index = Path(app.srcdir, f"{INDEX}.md")
    app.env.note_dependency(index)
    children = _list_children(index.read_text(), page)
    if children:
        toctrees.append(_build_toctree("", children))
    source[0] = text + "".join(toctrees)


def _redirect(page: str, path: str) -> str:
    """Returns where a link of a page leads on the site."""
    folder = PurePosixPath(page).parent
    outside = os.path.relpath(folder / path, "..")
    return os.path.relpath(INCLUDED[outside], folder) if outside in INCLUDED else path


def _build_toctrees(text: str) -> Iterator[str]:
    """Yields a hidden toctree of the pages below each heading of a list, without those in indented lists."""
    _, *sections = _HEADING.split(text)
    for caption, section in zip(sections[::2], sections[1::2], strict=True):
        pages = [path for indent, path in _LISTED.findall(section) if not indent]
        if pages:
            yield _build_toctree(caption, pages)


def _list_children(index: str, page: str) -> list[str]:
    """Returns the pages of the indented list below a page of the index, relative to the folder of the page."""
    children, parent = list[str](), ""
    for indent, path in _LISTED.findall(index):
        if not indent:
            parent = path
        elif parent == page:
            children.append(os.path.relpath(path, PurePosixPath(page).parent))
    return children


def _build_toctree(caption: str, pages: list[str]) -> str:
    named = [f":caption: {caption}"] if caption else []
    return "\n".join(["\n```{toctree}", ":hidden:", *named, "", *pages, "```\n"])


def _fold_sections(_app: Sphinx, page: str, _template: str, context: dict[str, object], *_: object) -> None:
    """Makes each caption of the sidebar the summary of a section that opens and closes."""
    start, *sections = _CAPTION.split(str(context.get("furo_navigation_tree", "")))
    folded = [start]
    for caption, links in zip(sections[::2], sections[1::2], strict=True):
        is_open = _CURRENT in links or (page == INDEX and len(folded) == 1)
        tag = '<details class="section" open>' if is_open else '<details class="section">'
        folded.append(f'{tag}<summary class="caption">{caption}</summary>\n{links}</details>\n')
    context["furo_navigation_tree"] = "".join(folded)
