"""What Node's clients read is what the rules give, whatever they are asked.

Each reader in use has its own way with numbers that are longer than they must be. protobufjs 6 and 7 do not say that
they have lost their place: they answer without dims.
"""

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from grpc import StatusCode

from foreign_calls import CALLS, ForeignCall
from tensor_reshape.wire.methods import OPERATION_METHODS
from tensor_reshape.wire.status import DETAILS_KEY, decode_refusal

pytestmark = pytest.mark.timeout(400)  # whoever comes first waits for the packages

Answer = dict[str, Any]
Pair = tuple[ForeignCall, Answer]
LOADERS = {f"protobufjs {version}": f"proto-loader-over-protobufjs-{version}" for version in (6, 7, 8)}
READERS = {**{name: ("grpc_js.mjs", loader) for name, loader in LOADERS.items()}, "connect": ("connect_node.mjs", "")}
CODES = {code.value[0]: code for code in StatusCode}


@pytest.fixture(scope="session", params=list(READERS.values()), ids=list(READERS))
def pairs(request: pytest.FixtureRequest, ask_all: Callable[[str, str], list[Pair]]) -> list[Pair]:
    """Each call with what one of the readers says became of it."""
    return ask_all(*request.param)


def read_reason(answer: Answer) -> str:
    """Returns why a call was refused, in the words of the contract."""
    details = base64.b64decode(answer["status"] or "")
    refusal = decode_refusal(CODES[answer["code"]], [(DETAILS_KEY, details)])
    return refusal.reason if refusal and refusal.message == answer["details"] else ""


def describe(call: ForeignCall, answer: Answer) -> str:
    """Returns what is wrong with an answer, or nothing."""
    if call.reason:
        return "" if "code" in answer and read_reason(answer) == call.reason else f"{answer} instead of {call.reason}"
    if "code" in answer or len(answer["responses"]) != len(call.responses):
        return f"{answer} instead of {len(call.responses)} responses"
    wrong = [
        f"{have} instead of {want}"
        for have, want in zip(answer["responses"], call.responses, strict=True)
        if ParseDict(have, type(want)()) != want
    ]
    return "; ".join(wrong)


@pytest.mark.parametrize("method", dict.fromkeys(call.method for call in CALLS))
def test_every_answer_is_what_the_rules_give(pairs: list[Pair], method: str):
    answers = [describe(call, answer)[:500] for call, answer in pairs if call.method == method]
    assert (len(answers), [wrong for wrong in answers if wrong]) == (COUNTS[method], [])


COUNTS = Counter(call.method for call in CALLS)


def test_some_hundreds_of_shapes_are_asked_of_every_operation():
    assert (min(COUNTS[method.name] for method in OPERATION_METHODS.values()) > 25, COUNTS.total() > 300) == (
        True,
        True,
    )


@pytest.mark.parametrize(("name", "loader"), LOADERS.items())
def test_each_loader_reads_with_the_protobufjs_of_its_name(programs: Path, name: str, loader: str):
    modules = programs / "node_modules"
    own, shared = modules / loader / "node_modules/protobufjs", modules / "protobufjs"
    version = json.loads(((own if own.exists() else shared) / "package.json").read_text())["version"]
    assert f"protobufjs {version}".startswith(f"{name}.")
