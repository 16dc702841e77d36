"""Boxes, lines and texts as SVG."""

from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.vectors import (
    LABEL_CHARACTERS,
    Span,
    clip_label,
    count_cells,
    draw_text,
    draw_title,
    escape_text,
    wrap_picture,
)


@given(st.text())
def test_any_text_is_well_formed_and_is_read_back_or_as_an_escape(text: str):
    printable = "".join(character for character in text if character.isprintable())
    read = fromstring(draw_title(text)).text or ""
    assert read == text if printable == text else len(read) > len(printable)


@pytest.mark.parametrize("text", ["<script>", "a & b", "]]>", '" onload="', "' onload='", "<!--"])
def test_nothing_of_xml_comes_through(text: str):
    assert not set(escape_text(text).replace("&lt;", "").replace("&amp;", "")) & set("<>\"'")


@pytest.mark.parametrize("text", ["\x00", "\ufffe", "\ud800", "\u202e", "\n"])
def test_what_cannot_be_printed_is_an_escape(text: str):
    assert escape_text(text).startswith("\\")


@given(st.text(max_size=80))
def test_a_label_is_no_wider_than_a_box_may_be(text: str):
    assert count_cells(clip_label(text)) <= LABEL_CHARACTERS


def test_a_label_that_is_cut_says_so():
    assert clip_label("N" * 21) == "N" * 19 + "…"
    assert clip_label("N" * 20) == "N" * 20


def test_what_is_struck_out_has_a_line_through_it():
    text = fromstring(draw_text((0, 0), [Span("4"), Span("0", is_struck=True)]))
    assert [span.get("text-decoration") for span in text] == ["line-through"]


def test_a_file_brings_its_colours_for_light_and_dark_and_a_part_of_a_page_none():
    assert "prefers-color-scheme:dark" in wrap_picture(("title", ""), (1, 1), [], is_standalone=True)
    assert "style" not in wrap_picture(("title", ""), (1, 1), [], is_standalone=False)
