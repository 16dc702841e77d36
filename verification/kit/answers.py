"""The answers of the project's rules, and of a plain reading of them, to the queries of the suite."""

from tensor_reshape.client import InferredShape, InvalidRequestError, ReshapeError, infer_locally
from tensor_reshape.wire.json_messages import Json
from verification.kit.executions import execute
from verification.kit.questions import CONDITIONS, make_query, read_known
from verification.kit.readings import Question, RejectionError, read

REJECTED: Json = {"rejection": {}}
_COMPARED = ("kind", "left", "right", "min", "max", "unlessZero")
"""The keys of a condition that the suite compares."""


def apply_rules(question: Json, rule: str = "") -> Json:
    """Returns the result of the project's rules for a query of a rule, without an execution."""
    try:
        (answer,) = infer_locally([make_query(question)])
    except InvalidRequestError as error:  # a number of more than 64 bits
        return describe_result(error)
    return describe_result(answer, lists_conditions=rule == CONDITIONS)


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


def compute_result(question: Json, rule: str) -> Json:
    """Returns the result of the rules, or the output of a plain execution if the query has a tensor."""
    result, data = apply_rules(question, rule), question["question"]["data"]
    if "data" not in data or "rejection" in result:
        return result
    dims = result["answer"]["shape"].get("dims", [])
    try:
        return {"output": {"dataType": data["dataType"], "dims": dims, "data": execute(data)}}
    except RejectionError:
        return REJECTED


def read_plainly(question: Json) -> Json:
    """Returns the result of a plain reading of the rules to known shapes."""
    data, shape = read_known(question)
    asked = question["question"]
    try:
        dims = read(Question(asked["operation"], data, shape, asked.get("specialZero")))
    except RejectionError:
        return REJECTED
    return {"answer": {"shape": {"dims": dims} if dims else {}}}


def is_right(case: Json, result: Json) -> bool:
    """Returns whether a result is that of the case. Of two rejections, the reasons are not compared."""
    if "rejection" in case["result"] or "rejection" in result:
        return ("rejection" in case["result"]) is ("rejection" in result)
    return bool(case["result"] == result)
