"""The data that the page shows for a query."""

import json
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given

from explorations import HOSTILE_TEXTS, LISTEN, QUERY_TEXTS, ask, show
from hypothesis_profiles import examples
from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.explorer.responses import build_response
from tensor_reshape.rules.errors import LimitError, PermissionDeniedError, Reason, ReshapeError
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest


def test_explorer_response_has_the_origin_of_each_dim():
    answer = show(QueryText("N,4,2..8", "0,-1", special_zero="true"))["answer"]
    assert answer["text"] == "[N, 8..32]"
    assert answer["dims"][1] == {
        "text": "8..32",
        "kind": "inferred",
        "origin": "shape[1] is -1: N*(2..8)*4 / N = 8..32",
    }
    assert answer["conditions"] == ["N >= 1"]


def test_explorer_response_shows_conditions_and_unknown_ranks():
    answer = show(QueryText("N,C", "M,C", special_zero="false"))["answer"]
    assert (answer["conditions"], answer["conditions_complete"]) == (["N = M unless C = 0"], True)
    answer = show(QueryText("2,3", "...", special_zero="false"))["answer"]
    assert (answer["text"], answer["dims"]) == ("[...]", [])


@pytest.mark.parametrize(
    ("text", "reason", "item", "accepted"),
    [
        (QueryText("2,3,4", "5,-1", special_zero="false"), "NOT_DIVISIBLE", ("shape", 2, 4), "4 and 6"),
        (QueryText("2,3", "4, 2", special_zero="false"), "VOLUME_MISMATCH", ("shape", None, None), "product is 6"),
        (QueryText("2,3", "6"), "SPECIAL_ZERO_MISSING", ("special_zero", None, None), "true or false"),
        (QueryText("N:5..2", "-1", "reshape", "true"), "INTERVAL_EMPTY", ("data", 0, 6), "in order"),
        (QueryText("2,3", "-1", "", "true", "[2, 3]"), "EXPECTED_SHAPE_MISMATCH", ("expected", None, None), ""),
        (QueryText(f"{2**70}", "-1", "", "true"), "DIM_OUT_OF_RANGE", ("data", 0, 22), "a dim from 0"),
        (QueryText(f"N,{2**63}..", "-1", "", "true"), "DIM_OUT_OF_RANGE", ("data", 2, 23), "a dim from 0"),
        (QueryText("2,3", f"-1,{2**99}*N", "", "true"), "EXPRESSION_INVALID", ("shape", 3, 35), "numbers from 1"),
    ],
)
def test_explorer_rejection_names_the_wrong_item_and_accepted_values(
    text: QueryText, reason: str, item: tuple[str, int | None, int | None], accepted: str
):
    record = show(text)
    rejection = record["rejection"]
    assert (rejection["reason"], tuple(rejection["blamed"].values())) == (reason, item)
    assert accepted in rejection["accepted"]
    assert "answer" not in record


def test_unparsable_explorer_query_has_no_drawing_or_code():
    assert list(show(QueryText("x y", "1", special_zero="true"))) == ["rejection"]


def answer_rejected(error: ReshapeError) -> dict[str, Any]:
    def reject(_request: ShapeRequest) -> ShapeAnswer:
        raise error

    return build_response(QueryText("2", "2", special_zero="true"), reject, LISTEN)


def test_explorer_raises_call_errors_such_as_server_busy():
    for error in (
        LimitError("full", reason=Reason.SERVER_BUSY),
        LimitError("many", reason=Reason.QUOTA_EXCEEDED),
        PermissionDeniedError("no", reason=Reason.PERMISSION_DENIED),
        ReshapeError("internal error", reason=Reason.INTERNAL_ERROR),
    ):
        with pytest.raises(type(error)) as caught:
            answer_rejected(error)
        assert caught.value is error


@examples(50)
@given(QUERY_TEXTS)
def test_explorer_sends_each_valid_query_to_the_service_once(text: QueryText):
    requests: list[ShapeRequest] = []

    def record_request(request: ShapeRequest) -> ShapeAnswer:
        requests.append(request)
        return ask(request)

    record = build_response(text, record_request, LISTEN)
    assert ("answer" in record) != ("rejection" in record)
    assert "answer" not in record or len(requests) == 1
    if "drawing" in record:
        fromstring(record["drawing"])


@examples(50)
@given(HOSTILE_TEXTS)
def test_explorer_answers_any_text_with_a_result_or_error(text: QueryText):
    record = show(text)
    assert len(json.dumps(record)) < 1_000_000
    if "drawing" in record:
        names = {element.tag.rpartition("}")[2] for element in fromstring(record["drawing"]).iter()}
        assert not names & {"script", "style", "image", "foreignObject", "a", "use"}
