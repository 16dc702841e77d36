"""The site of the pages: no warning, no page that the index does not lead to, no broken link."""

import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

from documents import ROOT
from tensor_reshape import client, onnx, testing

DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md"))


class Page(HTMLParser):
    """A page as it was made.

    Attributes:
        anchors: what a link can lead to.
        links: where its links and images lead.
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
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, made as `scripts/check` makes it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    done = subprocess.run([*command, DOCS, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """What was made of each page, by its path."""
    return {path.relative_to(site).as_posix(): Page(path.read_text()) for path in site.rglob("*.html")}


def test_each_page_of_the_repository_is_a_page_of_the_site(pages: dict[str, Page]):
    assert set(PAGES) <= pages.keys()


@pytest.mark.parametrize("module", [client, onnx, testing], ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(pages: dict[str, Page], module: ModuleType):
    shown = pages["reference/python.html"].anchors

    assert [name for name in module.__all__ if f"{module.__name__}.{name}" not in shown] == []


def test_every_stylesheet_of_ours_is_on_every_page(pages: dict[str, Page]):
    """A second `html_css_files` in conf.py takes the place of the first."""
    sheets = {sheet.name for sheet in (DOCS / "static").glob("*.css")}

    assert [
        page for page in PAGES if not sheets <= {Path(urlsplit(link).path).name for link in pages[page].links}
    ] == []


def test_no_list_of_definitions_is_without_something_defined(site: Path):
    """The parameters of long signatures, as Sphinx writes them; axe calls that serious."""
    assert "<dl>\n<dd>" not in (site / "reference/python.html").read_text()


def test_every_page_is_reached_from_the_index(pages: dict[str, Page]):
    found, todo = set[str](), ["index.html"]
    while todo:
        page = todo.pop()
        if page not in found:
            found.add(page)
            todo += [path for path, _ in find_targets(page, pages[page]) if path in pages]

    assert set(PAGES) - found == set()


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor_of_it(site: Path, pages: dict[str, Page]):
    broken = [
        (page, path, anchor)
        for page, content in pages.items()
        for path, anchor in find_targets(page, content)
        if not (site / path).is_file() or (path in pages and anchor not in pages[path].anchors)
    ]

    assert broken == []


def find_targets(page: str, content: Page) -> list[tuple[str, str]]:
    """Returns the paths and anchors on this site that a page links to."""
    links = [urlsplit(link) for link in content.links]
    return [
        (str(Path("/", page).parent.joinpath(unquote(link.path)).resolve())[1:] if link.path else page, link.fragment)
        for link in links
        if not (link.scheme or link.netloc)
    ]
