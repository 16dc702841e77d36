"""What came of a run, and its JSON: what agrees is counted, what differs is kept whole.

Laws: the same answers make the same JSON, to the byte, but for the date; and what is read back is what was written.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.conformance.cases import RULES, Question
from tensor_reshape.conformance.programs import Reply
from tensor_reshape.conformance.verdicts import Judgement, Verdict, find_other_reason, judge
from tensor_reshape.rules.json_format import Json

FORMAT = 1
"""Of the file; another number is another format."""


class Difference(NamedTuple):
    """A question whose answer is not the kit's.

    Attributes:
        id: of the question.
        rule: which it is about.
        verdict: what its answer is.
        why: what differs, in a few words.
        question: what was asked.
        right: the kit's answer.
        answer: what was answered; None: nothing.
        because: the sentence that decides.
    """

    id: str
    rule: str
    verdict: Verdict
    why: str
    question: Json
    right: Json
    answer: Json | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A run.

    Attributes:
        implementation: its name.
        versions: of whatever it is made of, by name.
        date: of the run, as ISO 8601 has it.
        kit: the version of the cases.
        sizes: which cases were asked.
        counts: for each rule, how many questions had each verdict.
        unsupported: how many questions were not answered for each thing that is not offered.
        other_reasons: how many were rejected for another reason than the kit's: "ours, not theirs".
        differences: all that neither agrees nor is unsupported, those that are tighter too, in the order of the kit.
    """

    implementation: str
    versions: Mapping[str, str]
    date: str
    kit: str
    sizes: Sequence[str]
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unsupported: Mapping[str, int] = field(default_factory=dict)
    other_reasons: Mapping[str, int] = field(default_factory=dict)
    differences: Sequence[Difference] = ()

    def count(self, verdict: Verdict, rule: str | None = None) -> int:
        """Returns how many questions have a verdict, of a rule or of all."""
        rows = self.counts.values() if rule is None else [self.counts.get(rule, {})]
        return sum(row.get(verdict, 0) for row in rows)

    @property
    def total(self) -> int:
        """How many questions were asked."""
        return sum(sum(row.values()) for row in self.counts.values())

    def list_rules(self) -> list[str]:
        """Returns the rules that were asked about, in the kit's order."""
        return [rule for rule in RULES if rule in self.counts]

    def list_differences(self, rule: str, verdict: Verdict) -> list[Difference]:
        """Returns the differences of a verdict, the quickest to read first."""
        found = (one for one in self.differences if (one.rule, one.verdict) == (rule, verdict))
        return sorted(found, key=measure_question)

    def write(self) -> str:
        """Returns the JSON, a line for each difference."""
        # Not by asdict, which copies every number of every answer.
        names = [one.name for one in fields(self) if one.name != "differences"]
        head = {"format": FORMAT} | {name: getattr(self, name) for name in names}
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        rows = ",\n".join(f" {json.dumps(one._asdict())}" for one in self.differences)
        return "{" + ",\n".join([*lines, f'"differences": [\n{rows}\n]' if rows else '"differences": []']) + "}\n"


def measure_question(difference: Difference) -> tuple[int, str]:
    """Returns how long a difference takes to read: the shortest question is the smallest example."""
    asked = {key: difference.question.get(key) for key in ("data", "shape", "expected", "strides", "bytes")}
    return len(json.dumps(asked)), difference.id


def read_results(path: Path) -> Results:
    """Reads results that `Results.write` has written.

    Raises:
        ValueError: it is no such file.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("format") != FORMAT:
            message = "another format"
            raise ValueError(message)  # noqa: TRY301 - told with the others
        rows = [Difference(**{**row, "verdict": Verdict(row["verdict"])}) for row in record.pop("differences")]
        return Results(**record, differences=rows)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"{path} does not contain results of the conformance suite: {error}"
        raise ValueError(message) from None


def judge_replies(questions: Sequence[Question], replies: Mapping[str, Reply]) -> dict[str, Judgement]:
    """Returns a judgement of what came of each question, by its id."""
    return {question.id: _judge(question, replies[question.id]) for question in questions}


def count_results(
    questions: Sequence[Question],
    replies: Mapping[str, Reply],
    judgements: Mapping[str, Judgement],
    make: Callable[..., Results],
) -> Results:
    """Returns the results of a run.

    Args:
        questions: what was asked.
        replies: what came of each, by its id.
        judgements: of these.
        make: makes the results, given what is counted.
    """
    counts: dict[str, Counter[str]] = {}
    unsupported, other_reasons, differences = Counter[str](), Counter[str](), list[Difference]()
    for question in questions:
        reply, (verdict, why) = replies[question.id], judgements[question.id]
        counts.setdefault(question.rule, Counter())[verdict] += 1
        if verdict is Verdict.UNSUPPORTED:
            unsupported[why] += 1
        elif verdict is not Verdict.AGREES:
            differences.append(_describe(question, reply, judgements[question.id]))
        elif reply.record is not None and (reason := find_other_reason(question, reply.record)):
            other_reasons[f"{reason}, not {question.right['error']['reason']}"] += 1
    return make(
        counts={rule: dict(sorted(row.items())) for rule, row in counts.items()},
        unsupported=dict(sorted(unsupported.items())),
        other_reasons=dict(sorted(other_reasons.items())),
        differences=differences,
    )


def _judge(question: Question, reply: Reply) -> Judgement:
    return Judgement(reply.failure, reply.why) if reply.record is None else judge(question, reply.record)


def _describe(question: Question, reply: Reply, judgement: Judgement) -> Difference:
    asked = {key: value for key, value in question.asked.items() if key != "id"}
    answer = None if reply.record is None else {key: value for key, value in reply.record.items() if key != "id"}
    return Difference(question.id, question.rule, *judgement, asked, question.right, answer, question.because)
