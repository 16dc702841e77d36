"""What is known of a library that is asked: how it is asked, and why its answers differ from those of the kit.

`deviations.read_library` makes them of `NAME.toml`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from conformance.adapters.questions import Question


class Matter(StrEnum):
    """How much a deviation matters, the worst first."""

    WRONG_MEMORY = "wrong memory"
    CRASH = "crash"
    WRONG_SHAPE = "wrong shape"
    MISSING_ERROR = "missing error"
    NEEDLESS_REJECTION = "needless rejection"
    WEAKER_ANSWER = "weaker answer"
    OTHER_DEFINITION = "another definition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An answer that is not the kit's.

    Attributes:
        implementation: whose it is.
        case: the id of the case.
        rule: the rule that the case is about.
        question: what was asked.
        asked: the same, as JSON.
        right: the kit's answer, as JSON.
        because: the sentence that decides it.
        verdict: how the answer stands to the kit's: "weaker", "wrong_shape", "missing_error", ...
        answer: what the implementation says, as JSON; empty: nothing, it crashed or hung.
    """

    implementation: str
    case: str
    rule: str
    question: Question
    asked: Mapping[str, Any]
    right: Mapping[str, Any]
    because: str
    verdict: str
    answer: Mapping[str, Any]

    @property
    def message(self) -> str:
        """What the implementation says where it rejects; empty: it does not."""
        return str(self.answer.get("rejection", {}).get("message", ""))

    @property
    def reason(self) -> str:
        """The permanent reason of the kit's rejection; empty: the kit gives a shape."""
        return str(self.right.get("rejection", {}).get("reason", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A cause of differences.

    Attributes:
        title: what the library does, in a few words.
        matter: how much it matters, at its worst.
        why: what is right by which sentence, or where the library documents its own definition. Markdown.
        explains: whether a difference comes from it. The first deviation that says so has it.
        report: the page below `docs/conformance/reports`, without ".md"; empty: it is no defect.
    """

    title: str
    matter: Matter
    why: str
    explains: Callable[[Difference], bool]
    report: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One way of asking a library.

    Attributes:
        name: of the column, of the results' file, and what the adapter is told.
        asked: what exactly answers, in a sentence. Markdown.
        sizes: of the kit, whose cases it is asked: all, unless that takes too long.
    """

    name: str
    asked: str
    sizes: Sequence[str] = ("core", "full", "hostile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library with an environment of its own.

    Attributes:
        title: as its authors write it.
        distributions: of the package index, whose versions are told.
        implementations: the ways of asking it; adapter.py takes the name of one.
        lacks: what it does not offer, and is not asked. Markdown.
        deviations: in the order in which they are tried.
    """

    title: str
    distributions: Sequence[str]
    implementations: Sequence[Implementation]
    lacks: str
    deviations: Sequence[Deviation]
