"""The drawings of the pages: each is what the rules say, is shown, and is described by its own title."""

import re
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from documents import PAGES, ROOT
from verification.document.drawings import DRAWINGS, REACHED, Reached, draw_all

FOLDER = ROOT / "docs/concepts/drawings"
IMAGE = re.compile(r"^!\[(.*)\]\(([^)]*\.svg)\)$", re.MULTILINE)
SHOWN = [
    ((page.parent / path).resolve(), alternative)
    for page in PAGES
    for alternative, path in IMAGE.findall(page.read_text())
]


def read_title(path: Path) -> str:
    return fromstring(path.read_text()).findtext("{http://www.w3.org/2000/svg}title") or ""


def test_every_drawing_is_written_and_shown_and_there_is_no_other():
    names = {FOLDER / f"{name}.svg" for name in (*DRAWINGS, *REACHED)}

    assert {path for path, _ in SHOWN} == names == set(FOLDER.iterdir())


@pytest.mark.parametrize(("path", "alternative"), SHOWN, ids=[path.stem for path, _ in SHOWN])
def test_the_text_in_place_of_a_drawing_is_its_title(path: Path, alternative: str):
    assert alternative == read_title(path)


def test_every_drawing_is_what_the_rules_say():
    assert {name: (FOLDER / f"{name}.svg").read_text() for name in draw_all()} == draw_all()


def test_the_tight_answer_has_both_ends_and_the_wide_one_has_not():
    assert REACHED["tight-values"].infer_values() == [3, 6]
    assert REACHED["wide-values"].infer_values() == [16, 18, 25]


@pytest.mark.parametrize("reached", REACHED.values(), ids=REACHED.keys())
def test_the_instances_of_a_drawing_are_all_of_the_question(reached: Reached):
    """Those that are shown are those that a search finds, dim by dim, within what the question says."""
    (first, second) = reached.asked.data.split(",")
    found = [data for data in ((a, b) for a in range(40) for b in range(40)) if admits(first, second, *data)]

    assert sorted(reached.instances) == found


def admits(first: str, second: str, a: int, b: int) -> bool:
    if first == "2..4":
        return 2 <= a <= 4 and b == int(second)
    return 4 <= a <= 7 and 3 <= b <= 5 and a % b == 0  # N*M and N
