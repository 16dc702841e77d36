"""The routes of the explorer and its static files."""

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from importlib.resources import files

import httpx
import pytest

from explorations import LISTEN, SERVICE, show
from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.server.http.apps import build_app
from tensor_reshape.server.http.explorer.commands import serve_call
from tensor_reshape.server.http.explorer.pages import build_routes
from tensor_reshape.server.http.requests import LOCAL_HOSTS

FILES = {file.name: file.read_text() for file in (files("tensor_reshape.explorer") / "static").iterdir()}


class Page(HTMLParser):
    """The elements of the page: names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(FILES["index.html"])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


PAGE = Page()
EXAMPLES = [
    str(attributes["href"]) for tag, attributes in PAGE.elements if tag == "a" and "?" in str(attributes["href"])
]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    routes = build_routes(serve_call, SERVICE, LISTEN)
    transport = httpx.ASGITransport(build_app(routes, LOCAL_HOSTS))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        yield client


async def test_explorer_endpoint_returns_the_computed_result_as_json(client: httpx.AsyncClient):
    answer = await client.get("/explore/answer?data=2,3,4&shape=0,-1&special_zero=true")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json() == show(QueryText("2,3,4", "0,-1", special_zero="true"))


async def test_explorer_serves_exactly_the_files_that_its_page_uses(client: httpx.AsyncClient):
    named = {attributes.get("src") or attributes.get("href") for _, attributes in PAGE.elements} - {None, "#result"}
    named |= {f"explore/{name}" for text in FILES.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    for name in named - set(EXAMPLES):
        assert (await client.get(f"/{name}")).status_code == 200, name
    for path in ("/explore/", "/explore/index.html", "/explore/..%2f__init__.py", "/explore/pages.py"):
        assert (await client.get(path)).status_code == 404, path


async def test_explorer_returns_304_for_unchanged_files(client: httpx.AsyncClient):
    for path in ("/", "/explore/explorer.css", "/explore/explorer.js", "/explore/icon.svg"):
        first = await client.get(path)
        again = await client.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b""), path
        assert "unsafe" not in first.headers["content-security-policy"]


def test_explorer_page_has_no_external_resources_or_inline_code():
    for name, file in FILES.items():
        text = file.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert re.findall(r"https?:|//[a-z0-9.-]+\.[a-z]{2,}|@import|\binnerHTML\b|\beval\(", text) == [], name
    assert not {"style", "onclick", "onload"} & {name for _, attributes in PAGE.elements for name in attributes}
    assert [attributes for tag, attributes in PAGE.elements if tag == "style"] == []
    assert all(attributes.get("src") for tag, attributes in PAGE.elements if tag == "script")


def test_explorer_examples_are_rejected_only_if_their_label_says_so():
    for link in EXAMPLES:
        record = show(QueryText.of(link.removeprefix("?").encode()))
        text = re.search(f'href="{re.escape(link.replace("&", "&amp;"))}">([^<]*)<', FILES["index.html"])
        assert text is not None
        assert ("rejection" in record) == ("reject" in text[1].lower()), record


def test_every_explorer_input_has_a_label_and_an_existing_description():
    ids = {attributes["id"] for _, attributes in PAGE.elements if "id" in attributes}
    labelled = {attributes.get("for") for name, attributes in PAGE.elements if name == "label"}
    for tag in ("input", "select"):
        found = [attributes for name, attributes in PAGE.elements if name == tag and attributes.get("type") != "radio"]
        assert found
        for attributes in found:
            assert attributes["id"] in labelled
            assert set((attributes.get("aria-describedby") or "").split()) <= ids
