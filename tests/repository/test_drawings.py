"""Each drawing is shown on a page, with its title as the alternative text."""

import re
from xml.etree.ElementTree import fromstring

from documents import PAGES, ROOT
from verification.document import DRAWINGS

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
