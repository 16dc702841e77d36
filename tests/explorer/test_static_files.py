"""The files of the page, which need nothing but each other."""

import re
from html.parser import HTMLParser
from importlib.resources import files

from tensor_reshape.rules.operations import SHAPE_OPERATIONS

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


def test_explorer_page_and_its_scripts_name_exactly_the_other_files():
    named = {attributes.get("src") or attributes.get("href") for _, attributes in PAGE.elements}
    named = {name.removeprefix("explore/") for name in named if name is not None and name.startswith("explore/")}
    named |= {name for text in FILES.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert named == set(FILES) - {"index.html"}


def test_explorer_page_has_no_external_resources_or_inline_code():
    for name, file in FILES.items():
        text = file.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert re.findall(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}|@import|\binnerHTML\b|\beval\(", text) == [], name
    assert not {"style", "onclick", "onload"} & {name for _, attributes in PAGE.elements for name in attributes}
    assert [attributes for tag, attributes in PAGE.elements if tag == "style"] == []
    assert all(attributes.get("src") for tag, attributes in PAGE.elements if tag == "script")


def test_every_explorer_input_has_a_label_and_an_existing_description():
    ids = {attributes["id"] for _, attributes in PAGE.elements if "id" in attributes}
    labelled = {attributes.get("for") for name, attributes in PAGE.elements if name == "label"}
    for tag in ("input", "select"):
        found = [attributes for name, attributes in PAGE.elements if name == tag and attributes.get("type") != "radio"]
        assert found
        for attributes in found:
            assert attributes["id"] in labelled
            assert set((attributes.get("aria-describedby") or "").split()) <= ids


def test_explorer_page_offers_each_operation_of_shape_queries_twice():
    values = [attributes.get("value") for tag, attributes in PAGE.elements if tag == "option"]
    assert values == [*SHAPE_OPERATIONS, "", *SHAPE_OPERATIONS]
