"""Collects the results of a conformance run, writes them as JSON, and describes queries and answers in words.

The results contain the number of right answers, and every wrong answer in full.
"""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.programs import ProgramReply
from tensor_reshape.conformance.verdicts import CaseVerdict, Judgement, judge
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, find_bounds, format_dim
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import ONNX_RESHAPE
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import decode_dims, decode_target
from tensor_reshape.wire.inference import decode_condition
from tensor_reshape.wire.json_messages import Json, read_message

_MAX_CHARACTERS = 400


class Result(NamedTuple):
    """The reply of an implementation to a test case, and the verdict about the reply.

    Attributes:
        id: the id of the test case.
        rule: the name of the rule that the test case tests.
        verdict: the verdict about the reply.
        why: a short description of the difference, or an empty text if there is none.
        query: the query of the test case.
        right: the right answer to the query.
        answer: the answer of the implementation, or None if it has not answered.
        because: the sentence that justifies the right answer.
    """

    id: str
    rule: str
    verdict: CaseVerdict
    why: str
    query: Json
    right: Json
    answer: Json | None
    because: str

    def describe(self) -> list[str]:
        """Returns a description of the difference, as a list of lines with one fact each."""
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
        implementation: the name of the tested implementation.
        versions: the versions of the implementation's components, by name.
        date: the date of the run in ISO 8601.
        suite: the version of the conformance suite.
        sizes: the parts of the suite that were run, such as `core`.
        counts: for each rule and each verdict, the number of cases.
        unsupported: for each explanation of the implementation, the number of unsupported cases with this explanation.
        differences: the results of the cases that neither agree nor are unsupported, in the order of the suite. They
            include tighter answers.
    """

    implementation: str
    versions: Mapping[str, str]
    date: str
    suite: str
    sizes: Sequence[str]
    counts: Mapping[str, Mapping[str, int]]
    unsupported: Mapping[str, int]
    differences: Sequence[Result]

    def count(self, verdict: CaseVerdict) -> int:
        """Returns the number of cases with a verdict."""
        return sum(row.get(verdict, 0) for row in self.counts.values())

    def to_json(self) -> Json:
        """Returns the results in the form of JSON."""
        return self._asdict() | {"differences": [one._asdict() for one in self.differences]}


def measure_query(result: Result) -> tuple[int, str]:
    """Returns a key for sorting results, which consists of the length of the query and its id.

    The shortest query is the smallest example of a difference.
    """
    return len(describe_query(result.query)), result.id


def judge_reply(case: Case, reply: ProgramReply) -> Result:
    """Compares the reply to a case with the right answer."""
    judgement = Judgement(reply.failure, reply.why) if reply.record is None else judge(case, reply.record)
    query = {key: value for key, value in case.query.items() if key != "id"}
    answer = None if reply.record is None else {key: value for key, value in reply.record.items() if key != "id"}
    return Result(case.id, case.rule, *judgement, query, case.right, answer, case.because)


def count_results(
    results: Sequence[Result], name: str, introduction: Json, *, date: str, suite: str, sizes: Sequence[str]
) -> Results:
    """Counts the results of a run and returns the counts with the differences."""
    versions = introduction.get("versions")
    counts: dict[str, Counter[str]] = {}
    for one in results:
        counts.setdefault(one.rule, Counter())[one.verdict] += 1
    unsupported = Counter(one.why for one in results if one.verdict is CaseVerdict.UNSUPPORTED)
    return Results(
        str(introduction.get("name") or name),
        {key: str(version) for key, version in versions.items()} if isinstance(versions, dict) else {},
        date,
        suite,
        sizes,
        {rule: dict(sorted(row.items())) for rule, row in counts.items()},
        dict(sorted(unsupported.items())),
        [one for one in results if one.verdict not in {CaseVerdict.AGREES, CaseVerdict.UNSUPPORTED}],
    )


def describe_query(query: Json) -> str:
    """Returns a query as one line of text, such as `reshape of [2, 3] to [0, -1], special_zero true`."""
    question = query["question"]
    data, target = question.get("data", {}), question.get("shape")
    operation = str(question.get("operation")).removeprefix("OPERATION_").lower()
    shape = {"dims": data.get("dims", [])} if "data" in data else data.get("shape")
    parts = [f"{operation} of {_describe_shape(shape)} to {_describe_shape(target, is_target=True)}"]
    if "specialZero" in question:
        parts.append(f"special_zero {str(question['specialZero']).lower()}")
    if question.get("expectedShape") is not None:
        parts.append(f"expected {_describe_shape(question['expectedShape'])}")
    if "strides" in data:
        parts.append(f"strides {_shorten(data['strides'])}")
    if "dataType" in data:
        parts.append(f"data_type {data['dataType'].removeprefix('DATA_TYPE_').lower()}")
    if "data" in data:
        parts.append(f"bytes {_cut(b64decode(data['data']).hex())}")
    return ", ".join(parts)


def describe_answer(answer: Json | None) -> str:
    """Returns an answer as one line of text, such as `[2, N (1..8)]` or a rejection. Without an answer, returns "-"."""
    if answer is None:
        return "-"
    if answer.get("unsupported") is not None:
        return f"not supported: {_shorten(answer['unsupported'])}"
    if answer.get("rejection") is not None:
        error = answer["rejection"] if isinstance(answer["rejection"], Mapping) else {}
        details = " ".join(_shorten(error[key]) for key in ("reason", "field", "message") if error.get(key))
        return f"rejected: {details}" if details else "rejected"
    try:
        if answer.get("output") is not None:
            tensor = read_message(tensor_pb2.Tensor, answer["output"], ignores_unknown=True)
            return f"{_format(tensor.dims)}, bytes {_cut(tensor.data.hex())}"
        message = read_message(reshape_pb2.InferShapeResponse, answer.get("answer"), ignores_unknown=True)
        # Invalid dims are also written, so that the reader of the report sees the fault.
        parts = [_format(decode_dims(message.shape, "shape.dims")) if message.HasField("shape") else "[...]"]
    except ReshapeError:
        return _shorten(answer)
    if message.conditions:
        parts.append(f"conditions {_shorten([str(decode_condition(one)) for one in message.conditions])}")
    return ", ".join(parts)


def _describe_shape(shape: Json | None, *, is_target: bool = False) -> str:
    """Returns a shape in the usual notation, such as `[2, ?, 1..8, N]`, or `[...]` if its rank is unknown."""
    if shape is None:
        return "[...]"
    try:
        if is_target:
            return _format(decode_target(ONNX_RESHAPE, read_message(reshape_pb2.TargetShape, shape)))
        return _format(decode_dims(read_message(tensor_pb2.Shape, shape), "dims"))
    except ReshapeError:  # a number has more than 64 bits, or the shape has too many items
        return _shorten(shape.get("items" if is_target else "dims"))


def _format(dims: Sequence[AnyDim]) -> str:
    """Returns dims in the usual notation. Bounds follow a name in parentheses."""
    texts = []
    for dim in dims:
        bounds = Dim(find_bounds(dim))
        is_bounded = isinstance(dim, Dim) and dim.expression is not None and bounds != Dim(ANY)
        texts.append(f"{format_dim(dim)} ({bounds})" if is_bounded else format_dim(dim))
    return _cut(f"[{', '.join(texts)}]")


def _shorten(value: object) -> str:
    return _cut(value if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
