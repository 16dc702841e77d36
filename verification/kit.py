"""Checks that the cases of the conformance suite are right.

Each answer must be that of the rules, and must not contradict a plain reading of the rules or an instance.
`conformance/cases/SIZE/RULE.jsonl` is the source of the cases, with one case in each line.
"""

import argparse
import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.client import InferredShape, ReshapeError, ShapeQuery, infer_locally
from tensor_reshape.conformance import cases
from tensor_reshape.conformance.cases import read_case_question, split_line
from tensor_reshape.conformance.verdicts import GivenShape, read_answer
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.json_messages import Json
from verification import instances
from verification.checker import MAX_DIM, reshape

FOLDER = Path(__file__).parents[1] / "conformance"
SIZES = ("core", "full", "hostile")
CONDITIONS = "conditions"
"""The rule whose cases list conditions."""

WIDER: Mapping[str, str] = {
    "partial/rv-03815": "4 divides the volume only if its second dim is 4, so a -1 begins at 9007199254740993"
}
"""The cases whose answer is known to be wider than the hull, with the cause."""

_SUMS = frozenset({"symbols/sum-is-not-zero"})
"""The cases that depend on a sum in a name. The search for instances does not read sums."""

_COMPARED = ("kind", "left", "right", "min", "max", "unlessZero")
"""The keys of a condition that the suite compares."""

_REJECTED: Json = {"rejection": {}}
_MAX_RANK = 64
_BY_ITSELF = frozenset(
    {
        "DIM_OUT_OF_RANGE",
        "EXPRESSION_INVALID",
        "INTERVAL_EMPTY",
        "MESSAGE_MALFORMED",
        "PARTIAL_DIM_INVALID",
        "RANK_LIMIT_EXCEEDED",
        "RANK_UNSUPPORTED",
    }
)
"""The reasons of rejections for an invalid dimension, entry or rank. No instance is searched for these."""

_BITS = {"u1": 1, "u2": 2, "u3": 3, "u6": 6, **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), 4)}
"""The number of bits of each type smaller than a byte."""

_BYTES = {
    **dict.fromkeys(("boolean", "i8", "u8", "f8e4m3", "f8e5m2", "f8e8m0"), 1),
    **dict.fromkeys(("i16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("i32", "u32", "f32"), 4),
    **dict.fromkeys(("i64", "u64", "f64"), 8),
}


class Findings(NamedTuple):
    wrong: dict[str, str]  # the contradiction with each wrong answer, by query
    loose: dict[str, str]  # the ends that no instance was found to reach, by query
    checked: int  # the number of queries that were compared with another reading


def main() -> int:
    """Runs the checks. The status is 1 if a check fails."""
    parser = argparse.ArgumentParser("scripts/verify kit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the answers of the rules into full and hostile")
    parser.add_argument("--core", action="store_true", help="check only the core")
    arguments = parser.parse_args()
    for path in [*list_files("full"), *list_files("hostile")] if arguments.write else []:
        path.write_text(renew(read_cases(path)))
    wrong = [name for size in (SIZES[:1] if arguments.core else SIZES) for name in _report_answers(size)]
    return 1 if wrong else 0


def _report_answers(size: str) -> Iterable[str]:
    """Prints the findings of a size; returns the answers that are wrong, or wider than the known exceptions."""
    cases = read_size(size)
    findings, stale = check_cases(cases), [case["id"] for case in cases if is_stale(case)]
    print(f"{size}: {len(cases)} cases, {sum(len(case['operations']) for case in cases)} questions", end="; ")
    print(f"{findings.checked} checked, {len(findings.wrong)} wrong, {len(findings.loose)} with an end not shown")
    for name, why in {**findings.wrong, **findings.loose}.items():
        print(f"  {name}: {why}; {WIDER.get(name.partition('@')[0], 'not explained')}")
    for name in stale:
        print(f"  {name}: the rules answer otherwise")
    return [*stale, *findings.wrong, *(name for name in findings.loose if name.partition("@")[0] not in WIDER)]


def list_files(size: str = "*") -> list[Path]:
    return sorted((FOLDER / "cases").glob(f"{size}/*.jsonl"))


def read_cases(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_size(size: str) -> list[Json]:
    return [case for path in list_files(size) for case in read_cases(path)]


def list_questions(case: Json) -> list[Json]:
    """Returns the queries of a case, one for each operation."""
    return [dict(one.query) for one in split_line(case)]


def make_query(question: Json) -> ShapeQuery:
    """Returns a query as the project's own client sends it."""
    return cases.make_query(BatchItem(ShapeRequest(read_case_question(question))))


def is_known(question: Json) -> bool:
    data, shape = question["question"]["data"], question["question"].get("shape")
    dims = data if "data" in data else data.get("shape")
    if dims is None or shape is None or dims.get("partial") or shape.get("partial"):
        return False
    return -1 not in dims.get("dims", [])


def read_known(question: Json) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the data and the requested shape of a query for which `is_known` is true."""
    data, shape = question["question"]["data"], question["question"]["shape"]
    return (data if "data" in data else data["shape"]).get("dims", []), shape.get("items", [])


def is_stale(case: Json) -> bool:
    """Returns whether the rules now give another result for a query of a case."""
    results = _compute_results(case)
    # An execution rejects without a reason.
    return any(one != case["result"] and (one != _REJECTED or "rejection" not in case["result"]) for one in results)


def renew(cases: Iterable[Json]) -> str:
    """Returns the text of a file whose cases have the answers of the rules, if all operations have the same answer."""
    lines = []
    for case in cases:
        results = _compute_results(case)
        is_changed = is_stale(case) and results == results[:1] * len(results)
        lines.append(json.dumps({**case, "result": results[0]} if is_changed else case))
    return "".join(f"{line}\n" for line in lines)


def _compute_results(case: Json) -> list[Json]:
    return [compute_result(question, case["rule"]) for question in list_questions(case)]


def compute_result(question: Json, rule: str) -> Json:
    """Returns the result of the rules, or the output of a plain execution if the query has a tensor."""
    try:
        (answer,) = infer_locally([make_query(question)])
    except ReshapeError as error:  # a number of more than 64 bits, or a shape of too many dims
        answer = error
    result, data = describe_result(answer, lists_conditions=rule == CONDITIONS), question["question"]["data"]
    if "data" not in data or "rejection" in result:
        return result
    output = execute(data) if is_known(question) else None  # an unknown shape is not executed
    dims = result["answer"].get("shape", {}).get("dims", [])
    return _REJECTED if output is None else {"output": {"dataType": data["dataType"], "dims": dims, "data": output}}


def describe_result(answer: InferredShape | ReshapeError, *, lists_conditions: bool = False) -> Json:
    """Returns a result in the form of the suite."""
    if isinstance(answer, ReshapeError):
        return {"rejection": {"reason": str(answer.reason), "field": answer.field}}
    record = answer.to_json()
    kept = {key: value for key, value in record.items() if not key.startswith("conditions")}
    if lists_conditions:
        listed = record.get("conditions", [])
        kept["conditions"] = [{key: one[key] for key in _COMPARED if key in one} for one in listed]
        kept["conditionsComplete"] = answer.conditions_complete
    return {"answer": kept}


def execute(data: Json) -> str | None:
    """Returns the bytes of the output in base64, moved one by one; None if the bytes do not match the tensor."""
    raw, dims, strides = b64decode(data["data"]), data["dims"], data.get("strides")
    data_type = data["dataType"].removeprefix("DATA_TYPE_").lower()
    if data_type in _BITS:
        is_packed = not strides and -(-prod(dims) * _BITS[data_type] // 8) == len(raw)
        return b64encode(raw).decode() if is_packed else None
    if strides and (len(strides) != len(dims) or min(strides) < 0):
        return None
    size, places = _BYTES[data_type], [0]
    for dim, step in zip(dims, strides or [prod(dims[at + 1 :]) for at in range(len(dims))], strict=True):
        places = [place + index * step for place in places for index in range(dim)]
    # No two elements overlap, except in a broadcast.
    repeats = prod(dim for dim, stride in zip(dims, strides or (), strict=False) if stride == 0)
    if 1 + max(places, default=-1) != len(raw) / size or len(set(places)) * repeats != len(places):
        return None
    return b64encode(b"".join(raw[place * size : (place + 1) * size] for place in places)).decode()


def read_plainly(question: Json) -> Json:
    """Returns the result of a plain reading of the rules to known shapes."""
    (data, shape), asked = read_known(question), question["question"]
    special_zero, operation = asked.get("specialZero"), reshape_pb2.Operation.Value(asked["operation"])
    is_valid = special_zero is not None and max(len(data), len(shape)) <= _MAX_RANK
    if not is_valid or not all(0 <= dim <= MAX_DIM for dim in data):
        return _REJECTED
    dims = reshape(operation, special_zero, data, [(False, item) for item in shape])
    return _REJECTED if dims is None else {"answer": {"shape": {"dims": [*dims]} if dims else {}}}


def is_right(case: Json, result: Json) -> bool:
    """Returns whether a result is that of the case. Of two rejections, the reasons are not compared."""
    if "rejection" in case["result"] or "rejection" in result:
        return ("rejection" in case["result"]) is ("rejection" in result)
    return bool(case["result"] == result)


def check_cases(cases: Iterable[Json]) -> Findings:
    """Compares known shapes with the plain reading, and others with instances; servers test queries with a layout."""
    wrong, loose, checked = dict[str, str](), dict[str, str](), 0
    for case in cases:
        data = case["question"]["data"]
        if "data" in data or ("dataType" in data and is_known(case)):
            continue
        for question in list_questions(case):
            checked += 1
            found = _check(case, question)
            wrong |= {question["id"]: found.wrong} if found.wrong else {}
            loose |= {question["id"]: "; ".join(found.loose)} if found.loose else {}
    return Findings(wrong, loose, checked)


def _check(case: Json, question: Json) -> instances.Findings:
    if is_known(question) and "expectedShape" not in question["question"]:
        plain = read_plainly(question)
        return instances.Findings("" if is_right(case, plain) else f"a plain reading returns {plain}")
    if case["id"] in _SUMS or case["result"].get("rejection", {}).get("reason") in _BY_ITSELF:
        return instances.Findings()
    expected = read_answer(case["result"])
    answer = None
    if isinstance(expected, GivenShape):
        # A case without conditions says nothing about them.
        listed, is_complete = expected.conditions, expected.conditions is not None and expected.conditions_complete
        answer = ShapeAnswer(expected.dims, listed or (), conditions_complete=is_complete)
    return instances.check_answer(read_case_question(question), answer)


if __name__ == "__main__":
    sys.exit(main())
