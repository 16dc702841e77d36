"""What implementations answered, as it is committed: `conformance/results/IMPLEMENTATION.json`.

- Differences are whole, a line each; what agrees is only counted. The questions are in the kit, and told by their ids.
- Files are read without any library, and written by whoever has asked one.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from conformance.adapters.libraries import Difference
from conformance.adapters.questions import read_question
from tensor_reshape.conformance.cases import Question, Size, list_questions
from tensor_reshape.conformance.verdicts import Verdict

Json: TypeAlias = dict[str, Any]
Counts: TypeAlias = dict[str, dict[str, dict[str, int]]]

FOLDER = Path(__file__).parents[2] / "conformance/results"
_MAX_MESSAGE = 200
"""Characters of what a library says: the end tells no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one implementation answered.

    Attributes:
        implementation: its name.
        versions: of the distributions that it is made of.
        date: when it was asked.
        kit: the version of the cases.
        counts: how many questions of each size and rule had which verdict.
        differences: the verdict and the answer of each question where that is a difference, by its id.
    """

    implementation: str
    versions: dict[str, str]
    date: str
    kit: str
    counts: Counts
    differences: dict[str, Json]

    def write(self) -> None:
        """Writes the file."""
        head = {
            "implementation": self.implementation,
            "versions": self.versions,
            "date": self.date,
            "kit": self.kit,
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        counts = ",\n".join(f"  {json.dumps(size)}: {json.dumps(rules)}" for size, rules in self.counts.items())
        differences = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in self.differences.items())
        text = "\n".join(["{", *lines, f'"counts": {{\n{counts}\n}},', f'"differences": {{\n{differences}\n}}', "}", ""])
        (FOLDER / f"{self.implementation}.json").write_text(text)

    def list_differences(self, questions: Mapping[str, Question]) -> Iterator[Difference]:
        """Yields the differences with what was asked."""
        for name, one in self.differences.items():
            question = questions[name]
            yield Difference(
                implementation=self.implementation,
                case=name,
                rule=question.rule,
                question=read_question(question.asked),
                right=question.right,
                because=question.because,
                verdict=one["verdict"],
                answer=one.get("answer", {}),
            )


def read_results() -> dict[str, Result]:
    """Returns all that is committed, by implementation."""
    records = (json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json")))
    return {record["implementation"]: Result(**record) for record in records}


def read_questions() -> dict[str, Question]:
    """Returns all questions of the kit, by their ids."""
    return {question.id: question for question in list_questions(list(Size))}
