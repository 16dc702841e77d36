"""The site builds without a warning, the index leads to every page, and no link is broken."""

import os
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from documents import ROOT
from tensor_reshape import client, onnx, testing

DOCS, SITE = ROOT / "docs", ROOT / ".site"
PAGES = sorted(page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md"))
MADE_BY_SPHINX = {"genindex.html", "py-modindex.html", "search.html"}


class Page(HTMLParser):
    """A page of the site.

    Attributes:
        anchors: the targets of links in this page.
        links: the addresses of its links and images.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, _tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(filter(None, [values.get("id")]))
        self.links += filter(None, [values.get("href"), values.get("src")])


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    """The pages of the site by their paths. Sphinx builds only pages that have changed since the last build."""
    env = {**os.environ, "PYTHONPATH": "tests/support"}
    subprocess.run([sys.executable, "-m", "verification.document", "--check"], cwd=ROOT, env=env, check=True)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    done = subprocess.run([*command, DOCS, SITE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # Only current pages, because Sphinx does not delete pages whose sources were deleted.
    return {path: Page((SITE / path).read_text()) for path in (*PAGES, *MADE_BY_SPHINX) if (SITE / path).exists()}


def find_targets(page: str, content: Page) -> list[tuple[str, str]]:
    """Returns the paths and anchors on this site that a page links to."""
    links = [urlsplit(link) for link in content.links]
    return [
        (str(Path("/", page).parent.joinpath(unquote(link.path)).resolve())[1:] if link.path else page, link.fragment)
        for link in links
        if not (link.scheme or link.netloc)
    ]


def test_index_leads_to_every_page(pages: dict[str, Page]):
    found, todo = set[str](), ["index.html"]
    while todo:
        page = todo.pop()
        if page not in found:
            found.add(page)
            todo += [path for path, _ in find_targets(page, pages[page]) if path in pages]

    assert set(PAGES) - found == set()


def test_links_lead_to_files_and_their_anchors(pages: dict[str, Page]):
    broken = [
        (page, path, anchor)
        for page, content in pages.items()
        for path, anchor in find_targets(page, content)
        if not (SITE / path).is_file() or (path in pages and anchor not in pages[path].anchors)
    ]

    assert broken == []


def test_reference_has_every_public_name_and_no_empty_definition(pages: dict[str, Page]):
    shown = pages["reference/python.html"].anchors

    for module in (client, onnx, testing):
        assert [name for name in module.__all__ if f"{module.__name__}.{name}" not in shown] == [], module.__name__
    # Sphinx writes this for parameters of long signatures, and axe reports it as serious.
    assert "<dl>\n<dd>" not in (SITE / "reference/python.html").read_text()


def test_every_page_has_our_stylesheets(pages: dict[str, Page]):
    """A second `html_css_files` in conf.py would replace the first."""
    sheets = {sheet.name for sheet in (DOCS / "static").glob("*.css")}
    names = {page: {Path(urlsplit(link).path).name for link in pages[page].links} for page in PAGES}

    assert [page for page in PAGES if not sheets <= names[page]] == []
