"""Boxes, lines and texts as SVG."""

from xml.etree.ElementTree import fromstring

from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.explorer.svg import (
    LABEL_CHARACTERS,
    Span,
    clip_label,
    count_cells,
    draw_text,
    draw_title,
    escape_text,
    wrap_picture,
)


@given(st.text(max_size=80))
def test_svg_title_of_any_text_is_well_formed_xml(text: str):
    printable = "".join(character for character in text if character.isprintable())
    read = fromstring(draw_title(text)).text or ""
    assert read == text if printable == text else len(read) > len(printable)
    assert count_cells(clip_label(text)) <= LABEL_CHARACTERS


def test_svg_text_escapes_markup_and_unprintable_characters():
    for text in ("<script>", "a & b", "]]>", '" onload="', "' onload='", "<!--"):
        assert not set(escape_text(text).replace("&lt;", "").replace("&amp;", "")) & set("<>\"'"), text
    for text in ("\x00", "\ufffe", "\ud800", "\u202e", "\n"):
        assert escape_text(text).startswith("\\"), ascii(text)


def test_truncated_svg_label_ends_with_an_ellipsis():
    assert clip_label("N" * 21) == "N" * 19 + "…"
    assert clip_label("N" * 20) == "N" * 20


def test_struck_out_svg_text_has_a_line_through_decoration():
    text = fromstring(draw_text((0, 0), [Span("4"), Span("0", is_struck=True)]))
    assert [span.get("text-decoration") for span in text] == ["line-through"]


def test_standalone_svg_has_light_and_dark_colours():
    assert "prefers-color-scheme:dark" in wrap_picture(("title", ""), (1, 1), [], is_standalone=True)
    assert "style" not in wrap_picture(("title", ""), (1, 1), [], is_standalone=False)
