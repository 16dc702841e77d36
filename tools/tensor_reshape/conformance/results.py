"""The results of a conformance run, and their JSON.

Cases with the right answer are only counted, but differences are stored in full.

Invariants: a run with the same answers results in the same JSON, except for the date. Reading the JSON restores the
results.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.conformance.cases import RULES, Case
from tensor_reshape.conformance.descriptions import describe_query
from tensor_reshape.conformance.programs import Reply
from tensor_reshape.conformance.verdicts import Judgement, Verdict, find_other_reason, judge
from tensor_reshape.wire.json_messages import Json

FORMAT = 2
"""The version of the file format."""


class Difference(NamedTuple):
    """A case for which the implementation did not give the right answer.

    Attributes:
        id: the id of the case.
        rule: the rule that the case tests.
        verdict: the verdict about the answer.
        why: a short description of the difference.
        query: the query.
        right: the right answer.
        answer: the answer. The value is None if there was no answer.
        because: the sentence that decides the right answer.
    """

    id: str
    rule: str
    verdict: Verdict
    why: str
    query: Json
    right: Json
    answer: Json | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a conformance run.

    Attributes:
        implementation: the name of the implementation.
        versions: the versions of the implementation's components, by name.
        date: the date of the run in ISO 8601.
        suite: the version of the suite.
        sizes: the sizes of the suite that were run.
        counts: the number of cases for each pair of a rule and a verdict.
        unsupported: the number of unsupported cases for each explanation.
        other_reasons: the number of rejections with another reason than in the suite, for each text "REASON, not REASON
            OF THE SUITE".
        differences: the cases that neither agree nor are unsupported, in the order of the suite. This list includes
            tighter answers.
    """

    implementation: str
    versions: Mapping[str, str]
    date: str
    suite: str
    sizes: Sequence[str]
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unsupported: Mapping[str, int] = field(default_factory=dict)
    other_reasons: Mapping[str, int] = field(default_factory=dict)
    differences: Sequence[Difference] = ()

    def count(self, verdict: Verdict, rule: str | None = None) -> int:
        """Returns the number of cases with a verdict, for one rule or for all rules."""
        rows = self.counts.values() if rule is None else [self.counts.get(rule, {})]
        return sum(row.get(verdict, 0) for row in rows)

    @property
    def total(self) -> int:
        """The number of all cases of the run."""
        return sum(sum(row.values()) for row in self.counts.values())

    def list_rules(self) -> list[str]:
        """Returns the rules of the run, in the order of the suite."""
        return [rule for rule in RULES if rule in self.counts]

    def list_differences(self, rule: str, verdict: Verdict) -> list[Difference]:
        """Returns the differences with a given rule and verdict, the shortest query first."""
        found = (one for one in self.differences if (one.rule, one.verdict) == (rule, verdict))
        return sorted(found, key=measure_query)

    def write(self) -> str:
        """Returns the results as JSON, with a line for each difference."""
        # The code does not use `dataclasses.asdict`, because it would copy every number of every answer.
        names = [one.name for one in fields(self) if one.name != "differences"]
        head = {"format": FORMAT} | {name: getattr(self, name) for name in names}
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        rows = ",\n".join(f" {json.dumps(one._asdict())}" for one in self.differences)
        return "{" + ",\n".join([*lines, f'"differences": [\n{rows}\n]' if rows else '"differences": []']) + "}\n"


def measure_query(difference: Difference) -> tuple[int, str]:
    """Returns a sort key, which is the length of the query and the id.

    With this key, the shortest query is the smallest example.
    """
    return len(describe_query(difference.query)), difference.id


def read_results(path: Path) -> Results:
    """Reads the results from a file that `Results.write` has written.

    Raises:
        ValueError: the file does not have the expected format.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("format") == FORMAT:
            rows = [Difference(**{**row, "verdict": Verdict(row["verdict"])}) for row in record.pop("differences")]
            return Results(**record, differences=rows)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # the texts of these exceptions are about Python
    message = f"{path} does not contain results of the conformance suite: create them with --results"
    raise ValueError(message)


def judge_replies(cases: Sequence[Case], replies: Mapping[str, Reply]) -> dict[str, Judgement]:
    """Judges each reply, and returns the judgements by the ids of the cases."""
    return {case.id: _judge(case, replies[case.id]) for case in cases}


def count_results(
    cases: Sequence[Case],
    replies: Mapping[str, Reply],
    judgements: Mapping[str, Judgement],
    make: Callable[..., Results],
) -> Results:
    """Returns the results of a conformance run.

    Args:
        cases: the cases of the run.
        replies: the reply to each case, by its id.
        judgements: the judgement of each reply, by the id of the case.
        make: a function that creates the results from the counts and the differences.
    """
    counts: dict[str, Counter[str]] = {}
    unsupported, other_reasons, differences = Counter[str](), Counter[str](), list[Difference]()
    for case in cases:
        reply, judgement = replies[case.id], judgements[case.id]
        counts.setdefault(case.rule, Counter())[judgement.verdict] += 1
        if judgement.verdict is Verdict.UNSUPPORTED:
            unsupported[judgement.why] += 1
        elif judgement.verdict is not Verdict.AGREES:
            differences.append(_describe(case, reply, judgement))
        elif reply.record is not None and (reason := find_other_reason(case, reply.record)):
            other_reasons[f"{reason}, not {case.right['rejection']['reason']}"] += 1
    return make(
        counts={rule: dict(sorted(row.items())) for rule, row in counts.items()},
        unsupported=dict(sorted(unsupported.items())),
        other_reasons=dict(sorted(other_reasons.items())),
        differences=differences,
    )


def _judge(case: Case, reply: Reply) -> Judgement:
    return Judgement(reply.failure, reply.why) if reply.record is None else judge(case, reply.record)


def _describe(case: Case, reply: Reply, judgement: Judgement) -> Difference:
    query = {key: value for key, value in case.query.items() if key != "id"}
    answer = None if reply.record is None else {key: value for key, value in reply.record.items() if key != "id"}
    return Difference(case.id, case.rule, *judgement, query, case.right, answer, case.because)
