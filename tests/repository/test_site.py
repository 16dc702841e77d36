"""The site of the pages: no warning, no broken link, every page in the navigation, and every drawing on a page."""

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import fromstring

import pytest

from documents import DOCS, PAGES, ROOT, SITE, SITE_PAGES, make_site
from tensor_reshape import client, onnx, testing
from verification.document import DRAWINGS

MADE_BY_SPHINX = {"404.html", "genindex.html", "py-modindex.html", "search.html"}
LINKED_TABLES = ("commands", "configuration", "errors", "metrics")
"""The reference pages whose rows have anchors."""


class Page(HTMLParser):
    """A page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}  # the ids that a link can name
        self.links: list[str] = []  # the targets of its links and images
        self.feed(text)

    def handle_starttag(self, _tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(filter(None, [values.get("id")]))
        self.links += filter(None, [values.get("href"), values.get("src")])


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    """Each page of the site, by its path. Only what has changed since `scripts/check` is made again."""
    make_site()
    # Sphinx leaves the pages of removed sources in the folder. They are not read.
    return {path: Page((SITE / path).read_text()) for path in (*SITE_PAGES, *MADE_BY_SPHINX) if (SITE / path).exists()}


def find_targets(page: str, content: Page) -> list[tuple[str, str]]:
    """Returns the paths and anchors on this site that a page links to."""
    links = [urlsplit(link) for link in content.links]
    return [
        (str(Path("/", page).parent.joinpath(unquote(link.path)).resolve())[1:] if link.path else page, link.fragment)
        for link in links
        if not (link.scheme or link.netloc)
    ]


def test_every_documentation_page_is_reachable_from_the_index(pages: dict[str, Page]):
    found, todo = set[str](), ["index.html"]
    while todo:
        page = todo.pop()
        if page not in found:
            found.add(page)
            todo += [path for path, _ in find_targets(page, pages[page]) if path in pages]

    assert set(SITE_PAGES) - found == set()


def test_documentation_links_lead_to_existing_files_and_anchors(pages: dict[str, Page]):
    broken = [
        (page, path, anchor)
        for page, content in pages.items()
        for path, anchor in find_targets(page, content)
        if not (SITE / path).is_file() or (path in pages and anchor not in pages[path].anchors)
    ]

    assert broken == []


def test_python_reference_has_every_public_name_and_no_empty_definition(pages: dict[str, Page]):
    reference = [path for path in pages if path.startswith("reference/python")]
    shown = {anchor for path in reference for anchor in pages[path].anchors}

    for module in (client, onnx, testing):
        assert [name for name in module.__all__ if f"{module.__name__}.{name}" not in shown] == [], module.__name__
    # Sphinx writes the parameters of long signatures in this form. axe reports it as serious.
    assert [path for path in reference if "<dl>\n<dd>" in (SITE / path).read_text()] == []


@pytest.mark.usefixtures("pages")
def test_python_reference_has_the_docstring_of_each_type_alias():
    for page, text in (
        ("dimensions", "One dimension: an int"),
        ("dimensions", "A data type, its name"),
        ("calls", "A function that takes the number of bytes"),
        ("queries", "The name of an operation of a shape query"),
    ):
        assert text in (SITE / f"reference/python/{page}.html").read_text()


def test_python_overview_links_to_every_public_name(pages: dict[str, Page]):
    linked = {anchor for _, anchor in find_targets("reference/python.html", pages["reference/python.html"])}
    aliases = {"DataTypeLike", "DimLike", "OperationName", "Progress"}
    unlisted = {*aliases, "ModelError", "ReshapeNode", "ShapeOptions", "Transfer"}

    for module in (client, onnx, testing):
        names = {name for name in module.__all__ if name not in unlisted}
        assert {name for name in names if f"{module.__name__}.{name}" not in linked} == set(), module.__name__


def test_reference_table_rows_have_anchors(pages: dict[str, Page]):
    for name in LINKED_TABLES:
        rows = re.findall(r"^\| `-*([^`]+)`", (ROOT / f".reference/{name}.md").read_text(), re.MULTILINE)
        anchors = pages[f"reference/{name}.html"].anchors
        assert rows, name
        assert [row for row in rows if not any(anchor.endswith(row) for anchor in anchors)] == [], name


@pytest.mark.usefixtures("pages")
def test_site_keeps_quotes_and_dashes_of_options():
    text = (SITE / "reference/commands.html").read_text()

    assert "With --explain, the source of each dimension follows" in text
    assert re.findall("[\u2013\u2014\u2018-\u201d]", re.sub(r"<title>.*?</title>", "", text)) == []


@pytest.mark.usefixtures("pages")
def test_sidebar_opens_only_the_section_of_the_current_page():
    for page in SITE_PAGES:
        opened = re.findall(r'<details class="section" open>', (SITE / page).read_text())
        assert len(opened) == 1, page


@pytest.mark.usefixtures("pages")
def test_every_documentation_page_has_a_description_and_an_icon():
    for page in SITE_PAGES:
        text = (SITE / page).read_text()
        assert re.search(r'<meta name="description" content="[^"]{20,}"', text), page
        assert "icon.svg" in text, page


@pytest.mark.usefixtures("pages")
def test_error_table_cells_contain_their_column_name():
    text = (SITE / "reference/errors.html").read_text()
    row = text.partition('id="NOT_DIVISIBLE"')[2].partition("</tr>")[0]

    assert 'data-label="what to do"' in row


def test_every_documentation_page_links_all_custom_stylesheets(pages: dict[str, Page]):
    """A second `html_css_files` in conf.py replaces the first."""
    sheets = {sheet.name for sheet in (DOCS / "static").glob("*.css")}
    names = {page: {Path(urlsplit(link).path).name for link in pages[page].links} for page in SITE_PAGES}

    assert [page for page in SITE_PAGES if not sheets <= names[page]] == []


FOLDER = ROOT / "docs/concepts/drawings"
BY_HAND = ("tight-values", "wide-values")
IMAGE = re.compile(r"^!\[(.*)\]\(([^)]*\.svg)\)$", re.MULTILINE)


def test_documentation_pages_show_every_drawing_with_alternative_text():
    shown = [
        ((page.parent / path).resolve(), alternative)
        for page in PAGES
        for alternative, path in IMAGE.findall(page.read_text())
    ]
    names = {FOLDER / f"{name}.svg" for name in (*DRAWINGS, *BY_HAND)}

    assert {path for path, _ in shown} == names == set(FOLDER.iterdir())
    for path, alternative in shown:
        assert alternative == fromstring(path.read_text()).findtext("{http://www.w3.org/2000/svg}title"), path
