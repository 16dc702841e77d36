"""The results of a conformance run, and their JSON.

Cases with the right answer are only counted, but differences are stored in full.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.descriptions import describe_answer, describe_query
from tensor_reshape.conformance.programs import Reply
from tensor_reshape.conformance.verdicts import Judgement, Verdict, judge
from tensor_reshape.wire.json_messages import Json


class Result(NamedTuple):
    """The reply of an implementation to a case, and the verdict about it.

    Attributes:
        id: the id of the case.
        rule: the rule that the case tests.
        verdict: the verdict about the reply.
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

    def describe(self) -> list[str]:
        """Returns the facts about a difference, one on each line."""
        facts = {
            "case": describe_query(self.query),
            "expected": describe_answer(self.right),
            "answer": describe_answer(self.answer) if self.answer is not None else "",
            "differs": self.why,
            "because": self.because,
        }
        return [f"  {label:<9}{text}" for label, text in facts.items() if text]


class Results(NamedTuple):
    """The results of a conformance run.

    Attributes:
        implementation: the name of the implementation.
        versions: the versions of the implementation's components, by name.
        date: the date of the run in ISO 8601.
        suite: the version of the suite.
        sizes: the sizes of the suite that were run.
        counts: the number of cases for each pair of a rule and a verdict.
        unsupported: the number of unsupported cases for each explanation.
        differences: the cases that neither agree nor are unsupported, in the order of the suite. This list includes
            tighter answers.
    """

    implementation: str
    versions: Mapping[str, str]
    date: str
    suite: str
    sizes: Sequence[str]
    counts: Mapping[str, Mapping[str, int]]
    unsupported: Mapping[str, int]
    differences: Sequence[Result]

    def count(self, verdict: Verdict) -> int:
        """Returns the number of cases with a verdict."""
        return sum(row.get(verdict, 0) for row in self.counts.values())

    def to_json(self) -> Json:
        """Returns the JSON of the results."""
        return self._asdict() | {"differences": [one._asdict() for one in self.differences]}


def measure_query(result: Result) -> tuple[int, str]:
    """Returns a sort key, which is the length of the query and the id.

    With this key, the shortest query is the smallest example.
    """
    return len(describe_query(result.query)), result.id


def judge_reply(case: Case, reply: Reply) -> Result:
    """Compares the reply to a case with the right answer."""
    judgement = Judgement(reply.failure, reply.why) if reply.record is None else judge(case, reply.record)
    query = {key: value for key, value in case.query.items() if key != "id"}
    answer = None if reply.record is None else {key: value for key, value in reply.record.items() if key != "id"}
    return Result(case.id, case.rule, *judgement, query, case.right, answer, case.because)


def count_results(
    results: Sequence[Result], name: str, introduction: Json, *, date: str, suite: str, sizes: Sequence[str]
) -> Results:
    """Returns the results of a run.

    Args:
        results: the result of each case, in the order of the suite.
        name: the name of the implementation, unless its description of itself has a name.
        introduction: the implementation's description of itself.
        date: the date of the run in ISO 8601.
        suite: the version of the suite.
        sizes: the sizes of the suite that were run.
    """
    versions = introduction.get("versions")
    counts: dict[str, Counter[str]] = {}
    for one in results:
        counts.setdefault(one.rule, Counter())[one.verdict] += 1
    unsupported = Counter(one.why for one in results if one.verdict is Verdict.UNSUPPORTED)
    return Results(
        str(introduction.get("name") or name),
        {key: str(version) for key, version in versions.items()} if isinstance(versions, dict) else {},
        date,
        suite,
        sizes,
        {rule: dict(sorted(row.items())) for rule, row in counts.items()},
        dict(sorted(unsupported.items())),
        [one for one in results if one.verdict not in {Verdict.AGREES, Verdict.UNSUPPORTED}],
    )
