"""Reads the test cases of the conformance suite.

Invariants: a line of a suite file becomes one case for each of its operations, and the query of a case does not contain
the answer.
"""

import json
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.wire.json_messages import Json

_PACKAGE = Path(__file__).parent
# An installed wheel contains the conformance suite in this package. An editable installation reads the conformance
# suite from the repository. The package contains no symbolic link to the suite, because git writes such a link as a
# text file on systems such as Windows.
SUITE = _PACKAGE if (_PACKAGE / "cases").exists() else _PACKAGE.parents[2] / "conformance"
FOLDER = SUITE / "cases"
RULES = (
    *("admitted", "target", "inferred", "copies", "volume", "expected"),
    *("partial", "symbols", "conditions", "layouts", "packed", "errors"),
)
"""The rules in the order in which the README of the suite explains them. Each rule has one file."""

_PREFIX = "OPERATION_"


class Size(StrEnum):
    """A part of the conformance suite."""

    CORE = "core"
    FULL = "full"
    HOSTILE = "hostile"


class Case(NamedTuple):
    """A test case of the suite: a query with the right answer.

    Attributes:
        id: the id of the line in the suite, "@", and the operation.
        rule: the rule that the case tests.
        query: the query in the JSON form that an implementation reads.
        right: the right answer as JSON.
        because: the sentence that decides the right answer, and the source of this sentence.
    """

    id: str
    rule: str
    query: Json
    right: Json
    because: str


def read_version() -> str:
    """Returns the version of the conformance suite."""
    return (SUITE / "VERSION").read_text().strip()


def list_cases(sizes: Collection[str], rules: Collection[str] = RULES, folder: Path = FOLDER) -> list[Case]:
    """Returns the cases of these sizes and rules, in the order of the files."""
    return [
        case
        for size in Size
        if size in sizes
        for rule in RULES
        if rule in rules
        for case in _read_file(folder / size / f"{rule}.jsonl")
    ]


def _read_file(path: Path) -> Iterator[Case]:
    if path.exists():  # if the size of the suite is limited, it may have no cases for a rule
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from split_line(json.loads(line))


def split_line(line: Json) -> Iterator[Case]:
    """Yields the cases of one line of a suite file."""
    for operation in line["operations"]:
        name = f"{line['id']}@{operation.removeprefix(_PREFIX).lower()}"
        query = {"id": name, "question": {"operation": operation, **line["question"]}}
        yield Case(name, line["rule"], query, line["result"], line["because"])
