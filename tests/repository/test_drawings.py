"""The drawings of the pages: each is shown, is described by its own title, and shows all instances."""

import re
from xml.etree.ElementTree import fromstring

from documents import PAGES, ROOT
from verification.document.drawings import DRAWINGS, REACHED

FOLDER = ROOT / "docs/concepts/drawings"
IMAGE = re.compile(r"^!\[(.*)\]\(([^)]*\.svg)\)$", re.MULTILINE)


def test_pages_show_every_drawing_with_its_title_as_alternative_text():
    shown = [
        ((page.parent / path).resolve(), alternative)
        for page in PAGES
        for alternative, path in IMAGE.findall(page.read_text())
    ]
    names = {FOLDER / f"{name}.svg" for name in (*DRAWINGS, *REACHED)}

    assert {path for path, _ in shown} == names == set(FOLDER.iterdir())
    for path, alternative in shown:
        assert alternative == fromstring(path.read_text()).findtext("{http://www.w3.org/2000/svg}title"), path


def test_drawings_of_instances_show_all_that_a_search_finds():
    assert REACHED["tight-values"].infer_values() == [3, 6]  # both ends, which the wide answer has not
    assert REACHED["wide-values"].infer_values() == [16, 18, 25]
    for name, reached in REACHED.items():
        first, second = reached.asked.data.split(",")
        found = [data for data in ((a, b) for a in range(40) for b in range(40)) if admits(first, second, *data)]
        assert sorted(reached.instances) == found, name


def admits(first: str, second: str, a: int, b: int) -> bool:
    if first == "2..4":
        return 2 <= a <= 4 and b == int(second)
    return 4 <= a <= 7 and 3 <= b <= 5 and a % b == 0  # N*M and N
