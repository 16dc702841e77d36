"""Habits that make sentences hard to read may become rarer, but not more frequent.

An expression finds a form, and a few of its matches are good English. So each habit has a maximum instead of a ban.
Lower the maximum when you have removed matches. `websockets` and the documentation of Triton have nearly none of them,
and 144 and 91 colons and semicolons in 1,000 sentences.
"""

import re
from collections.abc import Callable

import pytest

from prose import Sentence, list_code_sentences, list_document_sentences, list_test_names

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
    "what as a noun": (6, 3),
    "of at the beginning": (0, 1),
    "where instead of if": (10, 1),
    "is no": (4, 12),
    "told": (0, 0),
    "beside": (2, 0),
    "anew, meanwhile, behind": (10, 3),
    "alone instead of only": (6, 0),
    "he": (0, 0),
    "nobody": (0, 1),
    "colons and semicolons": (608, 226),
}

MAX_NAME_WORDS = 12
FORBIDDEN_OPENINGS = ("what", "who", "whoever", "where", "it", "and", "they")


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
