"""Which rule decides a case that nobody wrote by hand, and the sentence that says so."""

from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.records import Json
from verification.kit.questions import has_names, is_known, is_packed

_REFUSALS = {
    "SPECIAL_ZERO_MISSING": (
        "admitted",
        "special_zero is a required attribute without a default (oneDNN Graph, OpenVINO).",
    ),
    "RANK_UNSUPPORTED": ("admitted", "The operations of oneDNN Graph are for tensors of up to 12 dims (oneDNN Graph)."),
    "DIM_OUT_OF_RANGE": ("admitted", "A dim lies from 0 to 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."),
    "INVALID_TARGET_VALUE": ("target", "An item lies from -1 to 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."),
    "ZERO_INDEX_OUT_OF_RANGE": ("target", "A 0 that copies needs a data dim at its index (OpenVINO)."),
    "MULTIPLE_MINUS_ONE": ("target", "At most one item is -1 (oneDNN Graph, OpenVINO)."),
    "MINUS_ONE_WITH_ZERO_VOLUME": ("inferred", "A -1 beside a product of 0 cannot be inferred (this contract)."),
    "NOT_DIVISIBLE": ("inferred", "The division must leave no remainder (oneDNN Graph, OpenVINO)."),
    "DIM_OVERFLOW": ("inferred", "What is inferred is at most 2^63 - 1 (oneDNN Graph, OpenVINO: s64)."),
    "VOLUME_MISMATCH": ("volume", "The output has as many elements as the data (oneDNN Graph, OpenVINO)."),
    "EXPECTED_SHAPE_MISMATCH": ("expected", "An expected output that the output is not is refused (this contract)."),
    "SYMBOL_CONFLICT": ("symbols", "One name is one number wherever it stands (this contract)."),
}
"""By the reason: the rule, and the sentence."""

_ANSWERS = {
    "target": "Without special_zero a 0 is a dim of 0; with it, the data dim at its index (oneDNN Graph, OpenVINO).",
    "inferred": "A -1 keeps the number of elements: it is the volume over the other items (oneDNN Graph, OpenVINO).",
    "copies": "Copies stay in the division of the graph operations (oneDNN Graph), and leave Reshape-1's (OpenVINO).",
    "volume": "The output has as many elements as the data (oneDNN Graph, OpenVINO).",
    "partial": "Each end is the output of an accepted instance, and no output lies outside (this contract).",
    "symbols": "One name is one number wherever it stands, and cancels as a number does (this contract).",
    "layouts": "The output is the row-major reading of the logical tensor, whatever its layout is (oneDNN Graph).",
    "packed": "A reshape moves no element, so the bytes are the same (OpenVINO).",
}
"""By the rule."""

_NONE = "An error is given where no instance is accepted, or a literal breaks a rule (this contract). "


def find_rule(question: Json, answer: Json) -> str:
    """Returns the rule that a question is about."""
    if "bytes" in question:
        return "packed" if is_packed(question["data_type"]) else "layouts"
    if has_names(question):
        return "symbols"
    if not is_known(question):
        return "partial"
    if "error" in answer:
        rule = _REFUSALS[answer["error"]["reason"]][0]
        return "copies" if rule == "inferred" and _copies(question) else rule
    if -1 in question["shape"]:
        return "copies" if _copies(question) else "inferred"
    return "target" if 0 in question["shape"] else "volume"


UNSEARCHED = (
    "No output lies outside; a nearer end was not found within a bounded search, so there may be one (this contract)."
)


def find_sentence(rule: str, answer: Json) -> str:
    """Returns the sentence that decides."""
    if "error" not in answer:
        return _ANSWERS[rule]
    sentence = _REFUSALS[Reason(answer["error"]["reason"])][1]
    return _NONE + sentence if rule in {"partial", "symbols"} else sentence


def _copies(question: Json) -> bool:
    return bool(question.get("special_zero")) and 0 in question["shape"]
