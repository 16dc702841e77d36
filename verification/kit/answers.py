"""The answers of the project's rules, and of a plain reading of them, to the queries of the suite."""

from tensor_reshape.client import InferredShape, ReshapeError, infer_locally
from tensor_reshape.conformance.conditions import describe_conditions
from tensor_reshape.rules.json_format import Json
from verification.kit.executions import execute
from verification.kit.questions import make_query
from verification.kit.readings import Question, RejectionError, read

REJECTED: Json = {"error": {}}


def apply_rules(question: Json) -> Json:
    """Returns the answer of the project's rules, without an execution."""
    (answer,) = infer_locally([make_query(question)])
    return describe_result(question, answer)


def describe_result(question: Json, answer: InferredShape | ReshapeError) -> Json:
    """Returns the result of a query in the form of the suite."""
    if isinstance(answer, ReshapeError):
        return {"error": {"reason": str(answer.reason), "field": answer.field}}
    record = {key: value for key, value in answer.to_json().items() if not key.startswith("conditions")}
    if question.get("conditions"):
        record["conditions"] = describe_conditions(answer.to_json().get("conditions", []))
        record["conditions_complete"] = answer.conditions_complete
    return record


def compute_answer(question: Json) -> Json:
    """Returns the answer of the rules, with the bytes of a plain execution if the query has bytes."""
    if "bytes" not in question:
        return apply_rules(question)
    answer = apply_rules({key: value for key, value in question.items() if key not in {"bytes", "strides"}})
    if "error" in answer:
        return answer
    try:
        return {"shape": answer["shape"], "bytes": execute(question)}
    except RejectionError:
        return REJECTED


def read_plainly(question: Json) -> Json:
    """Returns the answer of a plain reading of the rules to known shapes."""
    try:
        asked = Question(question["operation"], question["data"], question["shape"], question.get("special_zero"))
        return {"shape": read(asked)}
    except RejectionError:
        return REJECTED


def is_right(case: Json, answer: Json) -> bool:
    """Returns whether an answer is that of the case. Of two rejections, the reasons are not compared."""
    if "error" in case["answer"] or "error" in answer:
        return ("error" in case["answer"]) is ("error" in answer)
    return bool(case["answer"] == answer)
