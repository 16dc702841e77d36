"""Habits that make sentences hard to read may become rarer, but not more frequent.

An expression finds a form, and a few of its matches are good English. So each habit has a maximum instead of a ban.
Lower the maximum when you have removed matches. `websockets` and the documentation of Triton have nearly none of them,
and 144 and 91 colons and semicolons in 1,000 sentences.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from documents import ROOT

HABITS = {
    "a clause that begins with who": r"^(?!.*\?$)(?:.*[:;] )?(?:And |But |So )?[Ww]ho(?:ever)? (?!'s)\w+",
    "what as a noun": r"^(?!.*\?$)(?:.*?[:;,] (?:and |but |so |for )?)?[Ww]hat "
    r"(?:is|are|was|were|has|have|does|do|cannot|can|may|will|would|must|an?|the|no|nobody|comes?|it|they|each|one)\b",
    "of at the beginning": r"^Of ",
    "where instead of if": r"^Where (?!.*\?$)|[,;:] (?:and |but )?where (?!(?:it|they)'s)",
    "is no": r"\b(?:is|are|was|were|be) no (?!longer|more than|need|way|such)\w+",
    "told": r"\b(?:told|tells?|telling)\b",
    "beside": r"\bbesides?\b",
    "anew, meanwhile, behind": r"\b(?:anew|meanwhile|behind|in place of)\b",
    "alone instead of only": r"\b\w+ alone\b",
    "he": r"\b(?:he|his|him)\b",
    "nobody": r"\b(?:nobody|somebody|anybody|everybody)\b",
    "colons and semicolons": r"[;:](?= )",
}

MAXIMA = {
    # the number in documents and the API definition, then in docstrings and comments
    "a clause that begins with who": (0, 0),
    "what as a noun": (5, 1),
    "of at the beginning": (0, 0),
    "where instead of if": (10, 1),
    "is no": (1, 10),
    "told": (0, 0),
    "beside": (2, 0),
    "anew, meanwhile, behind": (6, 2),
    "alone instead of only": (0, 0),
    "he": (0, 0),
    "nobody": (0, 1),
    "colons and semicolons": (430, 160),
}

MAX_NAME_WORDS = 12
FORBIDDEN_OPENINGS = ("what", "who", "whoever", "where", "it", "and", "they")

GENERATED = "v1"
_LEAST_WORDS = 4
_DIRECTIVE = re.compile(r"(noqa|type:|pragma|ruff|fmt|mypy|!)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Sentence(NamedTuple):
    """A sentence and the file that has it."""

    path: str
    text: str


def list_document_sentences() -> list[Sentence]:
    """Returns the sentences of all documents and of the comments of the API definition."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    found = [one for page in sorted(pages) for one in _split(page, *_list_paragraphs(page.read_text()))]
    for proto in sorted(ROOT.glob("protos/**/*.proto")):
        comments = re.findall(r"(?:^[ \t]*//.*\n)+", proto.read_text(), re.MULTILINE)
        found += _split(proto, *(re.sub(r"^[ \t]*//", "", comment, flags=re.MULTILINE) for comment in comments))
    return found


def list_code_sentences() -> list[Sentence]:
    """Returns the sentences of the docstrings and comments of the product."""
    modules = (path for path in ROOT.glob("*/tensor_reshape/**/*.py") if GENERATED not in path.parts)
    return [
        one
        for module in sorted(modules)
        for source in [module.read_text()]
        for one in _split(module, *_list_docstrings(source), *_list_comments(source))
    ]


def list_test_names() -> list[str]:
    """Returns the names of all test functions."""
    sources = (path.read_text() for path in sorted(ROOT.glob("tests/**/test_*.py")))
    return [name for source in sources for name in re.findall(r"def (test_\w+)", source)]


def _split(path: Path, *paragraphs: str) -> Iterator[Sentence]:
    for paragraph in paragraphs:
        for text in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\"'(\[0-9])", " ".join(paragraph.split())):
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= _LEAST_WORDS:
                yield Sentence(str(path.relative_to(ROOT)), text)


def _list_paragraphs(page: str) -> Iterator[str]:
    """Yields the paragraphs, list items and table cells of a page, without headings and code."""
    prose = re.sub(r"^\s*```.*?^\s*```", "", page, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^\s*(?:#|<!--).*$", "", _LINK.sub(r"\1", prose), flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+|]|\d+\.)\s)", prose):
        yield from block.split("|") if block.lstrip().startswith("|") else [re.sub(r"^\s*([-*+]|\d+\.)\s", "", block)]


def _list_docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for part in re.split(r"\n\s*\n|\n(?=\s*[-*]\s)|\n(?=\s*\w+: )", ast.get_docstring(node) or ""):
                # The name of an argument or an error is not part of its sentence.
                yield re.sub(
                    r"^\s*(?:[-*]\s+|(?:Args|Returns|Raises|Attributes|Yields):\s*)?(?:\*{0,2}\w+: )?", "", part
                )


def _list_comments(source: str) -> Iterator[str]:
    """Yields each comment. Consecutive comment lines are one comment."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(text):
            continue
        if token.start[0] != last + 1:
            yield " ".join(block)
            block = []
        block.append(text)
        last = token.start[0]
    yield " ".join(block)


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize(
    ("place", "list_sentences"),
    [(0, list_document_sentences), (1, list_code_sentences)],
    ids=["documents", "code"],
)
def test_hard_to_read_phrases_do_not_become_more_frequent(
    habit: str, place: int, list_sentences: Callable[[], list[Sentence]]
):
    found = [one for one in list_sentences() if re.search(HABITS[habit], one.text)]
    assert len(found) <= MAXIMA[habit][place], "\n".join(f"{path}: {text}" for path, text in found)


def test_test_names_are_short():
    assert [name for name in list_test_names() if name.count("_") > MAX_NAME_WORDS] == []


def test_test_names_do_not_begin_with_a_pronoun():
    assert [name for name in list_test_names() if name.split("_")[1] in FORBIDDEN_OPENINGS] == []
