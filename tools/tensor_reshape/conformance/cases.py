"""The cases of the kit, and the questions that are asked of them.

Laws: a case is asked once for each of its operations; and whoever is asked sees nothing of the answer.
"""

import json
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.rules.json_format import Json

_PACKAGE = Path(__file__).parent
# A wheel has the kit in this package. An editable installation reads it where the repository has it: a link to it would
# be a file of text where git makes no links, as on Windows.
KIT = _PACKAGE if (_PACKAGE / "cases").exists() else _PACKAGE.parents[2] / "conformance"
FOLDER = KIT / "cases"
RULES = (
    *("admitted", "target", "inferred", "copies", "volume", "expected"),
    *("partial", "symbols", "layouts", "packed", "errors"),
)
"""In the order in which the kit explains them, one file each."""

_UNASKED = {"id", "rule", "operations", "answer", "because", "recorded"}


class Size(StrEnum):
    """Which cases."""

    CORE = "core"
    FULL = "full"
    HOSTILE = "hostile"


class Question(NamedTuple):
    """A case for one operation.

    Attributes:
        id: the case's, "@", and the operation.
        rule: which the case is about.
        asked: what an implementation reads.
        right: the answer.
        because: the sentence that decides it, and its source.
    """

    id: str
    rule: str
    asked: Json
    right: Json
    because: str


def read_version() -> str:
    """Returns the version of the kit."""
    return (KIT / "VERSION").read_text().strip()


def list_questions(sizes: Collection[str], rules: Collection[str] = RULES, folder: Path = FOLDER) -> list[Question]:
    """Returns the questions of these files, the cases of one file together and in its order."""
    return [
        question
        for size in Size
        if size in sizes
        for rule in RULES
        if rule in rules
        for question in _read_file(folder / size / f"{rule}.jsonl")
    ]


def _read_file(path: Path) -> Iterator[Question]:
    if path.exists():  # no size has cases of every rule
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from split_case(json.loads(line))


def split_case(case: Json) -> Iterator[Question]:
    """Yields the questions of a case."""
    rest = {key: value for key, value in case.items() if key not in _UNASKED}
    for operation in case["operations"]:
        name = f"{case['id']}@{operation}"
        asked = {"id": name, "operation": operation, **rest}
        yield Question(name, case["rule"], asked, case["answer"], case["because"])
