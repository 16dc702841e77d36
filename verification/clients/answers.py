"""Compares the printed result of a call with the expected result."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from foreign_calls import Failure, ForeignCall
from verification.clients.inference_rows import write_raw_contents

Answer = dict[str, Any]
_MAX_CHARACTERS = 400


def find_difference(call: ForeignCall, answer: Answer) -> str:
    """Returns what is wrong with a result, or an empty string."""
    if "code" in answer or call.failure is not None:
        wrong = find_wrong_failure(call.failure, answer)
    else:
        wrong = find_wrong_response(call.responses, answer["responses"])
    return f"{call.method}: {wrong}"[:_MAX_CHARACTERS] if wrong else ""


def find_wrong_failure(failure: Failure | None, answer: Answer) -> str:
    if failure is None or "code" not in answer:
        return f"{str(answer)[:_MAX_CHARACTERS]} instead of {failure or 'a response'}"
    have = {"code": answer["code"], "reason": answer.get("reason") or ""}
    want: Answer = {"code": failure.code.value[0], "reason": failure.reason}
    if failure.message:
        have |= {"message": answer["message"], "metadata": answer.get("metadata") or {}}
        want |= {"message": failure.message, "metadata": dict(failure.metadata)}
    return "" if have == want else f"{have} instead of {want}"


def find_wrong_response(wanted: Sequence[Message], answers: Sequence[dict[str, Any]]) -> str:
    if len(answers) != len(wanted):
        return f"{len(answers)} responses instead of {len(wanted)}"
    return next(_find_wrong_responses(wanted, answers), "")


def _find_wrong_responses(wanted: Sequence[Message], answers: Sequence[dict[str, Any]]) -> Iterator[str]:
    for index, (want, answer) in enumerate(zip(wanted, answers, strict=True)):
        have = ParseDict(answer, type(want)())
        if have.DESCRIPTOR.full_name == "inference.ModelInferResponse":
            write_raw_contents(have)
        if have != want:
            yield f"response {index}: {describe_bytes(have, want) or f'{have} instead of {want}'}"


def describe_bytes(have: Message, want: Message) -> str:
    """Returns the first different byte of a tensor or a chunk, if nothing else differs."""
    for kind in ("output.data", "chunk"):
        *path, name = kind.split(".")
        mine, other = have, want
        for part in path:
            mine, other = getattr(mine, part, mine), getattr(other, part, other)
        left, right = (np.frombuffer(getattr(one, name, b""), np.uint8) for one in (mine, other))
        if left.size == right.size and (left != right).any():
            return f"{name} differs from byte {int(np.argmax(left != right))}"
    return ""
