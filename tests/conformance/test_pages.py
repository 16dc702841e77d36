"""The report as one page: `browsers/test_conformance_pages` looks at it."""

import re

from conformance_runs import HOSTILE, make_mixed_results, make_question, make_results
from tensor_reshape.conformance.pages import MAX_SHOWN, build_page

PAGE = build_page([make_mixed_results()]).decode()
BOTH = build_page([make_mixed_results("one & only"), make_mixed_results("other")]).decode()


def test_page_needs_nothing_but_itself():
    assert re.findall(r"(?:src|href)=\"(?!#)", PAGE) == []
    assert "url(" not in PAGE
    assert "@import" not in PAGE
    assert "default-src 'none'" in PAGE


def test_answers_of_an_implementation_are_only_text():
    assert PAGE.count("<script>") == PAGE.count("</script>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\ud800" in PAGE
    assert HOSTILE.encode("utf-8", "backslashreplace").decode() not in PAGE
    page = build_page([make_results((make_question(), {"shape": ["\u202e6\x1b[31m\0\ud800"]}))]).decode()
    assert all(character.isprintable() or character == "\n" for character in page)
    assert "\\u202e6\\x1b[31m\\x00\\ud800" in page


def test_matrix_has_the_verdicts_of_one_or_a_column_for_each():
    assert 'href="#rule=inferred&amp;verdict=crash"' in PAGE
    assert '<th scope="col">hang</th>' in PAGE
    assert '<th scope="col">missing_error</th>' not in PAGE
    assert '<th scope="col">one &amp; only</th><th scope="col">other</th>' in BOTH
    assert 'href="#implementation=one+%26+only&amp;rule=inferred"' in BOTH


def test_differences_are_listed_and_the_smallest_marked():
    assert (len(re.findall("<details[^>]*data-smallest", PAGE)), PAGE.count("<details")) == (5, 6)
    assert "<li>mine: not offered: no such thing, 1 questions</li>" in PAGE
    assert "<li>mine: refused for another reason, OTHER, not NOT_DIVISIBLE, 1 questions</li>" in PAGE
    assert "<details" not in build_page([make_results((make_question(), {"shape": [6]}))]).decode()


def test_page_is_bounded():
    many = make_results(*((make_question(f"inferred/{number}"), {"shape": [7]}) for number in range(1000)))
    page = build_page([many]).decode()
    assert page.count("<details") == MAX_SHOWN
    assert "the smallest of 1000</span>" in page
