"""What makes a site of pages that are plain Markdown.

- The navigation is what `index.md` links to: a list of pages under each heading, and below `conformance.md` the reports
  that it lists. No page holds a toctree, and a page that neither names is a warning of Sphinx's.
- A page of the repository that lies outside `docs/` (`INCLUDED`) is a page of the site as well, and links to it lead
  there. Links to other files of the repository offer them for download.
"""

import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from sphinx.application import Sphinx

INDEX = "index"
LISTS = {INDEX, "conformance"}
"""The pages whose lists of links are the navigation: that of libraries' answers has a list of reports."""
INCLUDED = {
    "CONTRIBUTING.md": "architecture/contributing.md",
    "SECURITY.md": "deployment/security-policy.md",
    "CHANGELOG.md": "architecture/changelog.md",
}
"""Pages outside `docs/`, and the page of the site that includes each."""

_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_LISTED = re.compile(r"^[-|] \[[^\]]*\]\(([^)#:]+)\.md\)", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("source-read", _complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _complete(_app: Sphinx, page: str, source: list[str]) -> None:
    text = _LINK.sub(lambda link: _redirect(page, link[1]), source[0])
    source[0] = text + "".join(_build_toctrees(text)) if page in LISTS else text


def _redirect(page: str, path: str) -> str:
    """Returns where a link of a page leads on the site."""
    folder = PurePosixPath(page).parent
    outside = os.path.relpath(folder / path, "..")
    return os.path.relpath(INCLUDED[outside], folder) if outside in INCLUDED else path


def _build_toctrees(text: str) -> Iterator[str]:
    """Yields a hidden toctree for each heading of the index, of the pages that are listed below it."""
    _, *sections = _HEADING.split(text)
    for caption, section in zip(sections[::2], sections[1::2], strict=True):
        pages = _LISTED.findall(section)
        if pages:
            yield "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```\n"])
