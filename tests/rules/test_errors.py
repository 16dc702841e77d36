"""The exception classes, and the permanent reasons."""

import ast
import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from tensor_reshape.rules.errors import (
    InvalidRequestError,
    LimitError,
    NotFoundError,
    PermissionDeniedError,
    Reason,
    ReshapeError,
    TensorReshapeError,
    UnauthenticatedError,
    clip_metadata,
    escape_unprintable,
    format_value,
)

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos" / "tensor_reshape" / "v1"
SOURCES = sorted(path for root in ("core", "client", "tools", "server") for path in (ROOT / root).rglob("*.py"))
KINDS = (ReshapeError, InvalidRequestError, NotFoundError, UnauthenticatedError, PermissionDeniedError, LimitError)
CLASSES: dict[str, type[ReshapeError]] = {kind.__name__: kind for kind in KINDS}

# A reason may be added here. None is ever renamed, removed, or given another meaning.
_REASONS = """
    BATCH_DEPENDENCY_FAILED BATCH_REFERENCE_INVALID BATCH_TOO_LARGE CHUNK_OUT_OF_ORDER CHUNK_UNEXPECTED
    COPY_INDEX_OUT_OF_RANGE DATA_SIZE_MISMATCH DATA_TYPE_UNSUPPORTED DIM_OUT_OF_RANGE DIM_OVERFLOW DIM_SYNTAX_INVALID
    DIM_UNKNOWN EXPECTED_SHAPE_MISMATCH EXPRESSION_INVALID FIELD_MISSING HEADER_TOO_LARGE INPUT_INVALID INTERNAL_ERROR
    INTERVAL_EMPTY INVALID_TARGET_VALUE MESSAGE_MALFORMED MESSAGE_TOO_LARGE MINUS_ONE_WITH_ZERO_VOLUME MODEL_UNKNOWN
    MULTIPLE_MINUS_ONE NOT_DIVISIBLE OPERATION_UNSPECIFIED OUTPUT_INVALID OUTPUT_TOO_LARGE PARAMETER_INVALID
    PARTIAL_DIM_INVALID PERMISSION_DENIED QUOTA_EXCEEDED RANK_LIMIT_EXCEEDED RANK_UNSUPPORTED SERVER_BUSY
    SHAPE_DATA_TYPE_UNSUPPORTED SHAPE_RANK_INVALID SPECIAL_ZERO_MISSING STALLED STRIDES_OVERLAP STRIDES_RANK_MISMATCH
    STRIDES_UNSUPPORTED STRIDE_NEGATIVE SYMBOL_CONFLICT TENSOR_TOO_LARGE UNAUTHENTICATED VIEW_IMPOSSIBLE VOLUME_MISMATCH
"""

# These do not belong to a field: they concern the whole message, the server, or the caller's process.
_OF_NO_FIELD = """
    DIM_SYNTAX_INVALID MESSAGE_MALFORMED MESSAGE_TOO_LARGE OUTPUT_TOO_LARGE PERMISSION_DENIED UNAUTHENTICATED
    VIEW_IMPOSSIBLE
"""

# The Open Inference Protocol belongs to another project, so its page lists them instead of proto comments.
_OF_ANOTHER_CONTRACT = """
    INPUT_INVALID MODEL_UNKNOWN OUTPUT_INVALID PARAMETER_INVALID
"""

REASONS, OF_NO_FIELD, OF_ANOTHER_CONTRACT = (
    set(text.split()) for text in (_REASONS, _OF_NO_FIELD, _OF_ANOTHER_CONTRACT)
)


def read_documented_reasons() -> set[str]:
    text = "".join(path.read_text() for path in sorted(PROTOS.glob("*.proto")))
    reason = r"(?:[A-Z]+_[A-Z_]+|STALLED)"
    groups = re.findall(rf"\breasons? ({reason}(?:(?:,| or| and|, or) {reason})*)", re.sub(r"\s*\n\s*//\s*", " ", text))
    return {found for group in groups for found in re.findall(reason, group)}


def test_error_reasons_are_never_renamed_or_removed():
    assert {reason.value for reason in Reason} == set(Reason.__members__) == REASONS
    assert [Reason(reason.value) for reason in Reason] == list(Reason)


def test_error_reasons_have_valid_status_codes():
    assert {reason.code_name for reason in Reason} == {kind.code_name for kind in CLASSES.values()}


# the numbers of the broken rules
RULES = {
    1: {
        *("DATA_TYPE_UNSUPPORTED", "SHAPE_DATA_TYPE_UNSUPPORTED", "SHAPE_RANK_INVALID", "SPECIAL_ZERO_MISSING"),
        *("RANK_UNSUPPORTED", "RANK_LIMIT_EXCEEDED", "DIM_OUT_OF_RANGE", "INTERVAL_EMPTY", "EXPRESSION_INVALID"),
        "SYMBOL_CONFLICT",
    },
    2: {"INVALID_TARGET_VALUE", "COPY_INDEX_OUT_OF_RANGE", "MULTIPLE_MINUS_ONE"},
    3: {"MINUS_ONE_WITH_ZERO_VOLUME", "NOT_DIVISIBLE", "DIM_OVERFLOW"},
    4: {"VOLUME_MISMATCH"},
    5: {"EXPECTED_SHAPE_MISMATCH"},
}


def test_error_reasons_of_the_rules_have_their_numbers():
    assert {rule: {reason for reason in Reason if reason.rule == rule} for rule in RULES} == RULES
    assert {reason.rule for reason in Reason} == {None, *RULES}


def test_retryable_error_reasons_match_the_proto_comment():
    text = " ".join((PROTOS / "reshape.proto").read_text().replace("//", "").split())
    (named,) = re.findall(r"if the reason is ([A-Z_, or]+), you may retry", text)
    retryable = {reason for reason in Reason if reason.is_retryable}
    assert retryable == set(re.findall("[A-Z_]+", named))
    assert {reason.code_name for reason in retryable} == {LimitError.code_name}


def find_raised() -> list[tuple[str, type[ReshapeError], Reason]]:
    """Returns each place in the sources that creates an error with a literal reason."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            built = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "of" else node.func
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            reasons = [ast.unparse(value).removeprefix("Reason.") for value in given]
            if isinstance(built, ast.Name) and built.id in CLASSES:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found += [(place, CLASSES[built.id], Reason[reason]) for reason in reasons if reason in REASONS]
    return found


def test_error_class_matches_the_code_of_its_reason():
    raised = find_raised()
    assert len(raised) > len(Reason) / 2
    assert [place for place, kind, reason in raised if kind.code_name != reason.code_name] == []


def test_every_error_reason_is_raised_in_the_sources():
    text = "".join(path.read_text() for path in SOURCES)
    assert set(re.findall(r"\bReason\.([A-Z][A-Z_]+)", text)) == REASONS


def test_proto_field_comments_name_every_error_reason():
    documented = read_documented_reasons()
    assert REASONS - OF_NO_FIELD - OF_ANOTHER_CONTRACT <= documented <= REASONS


def test_reshape_error_is_caught_by_its_base_classes():
    assert issubclass(ReshapeError, TensorReshapeError)
    assert all(issubclass(kind, ReshapeError) for kind in CLASSES.values())
    assert [name for name, kind in CLASSES.items() if issubclass(kind, ValueError)] == ["InvalidRequestError"]


def test_reshape_error_keeps_its_arguments():
    error = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape[1]", index=1, data=(2, 3), name="batch")
    assert (str(error), error.message, error.field, error.reason) == ("no", "no", "shape[1]", Reason.NOT_DIVISIBLE)
    assert error.metadata == {"index": "1", "data": "[2, 3]", "name": "batch"}
    metadata = {"index": "0"}
    plain = LimitError("no", reason=Reason.OUTPUT_TOO_LARGE, metadata=metadata)
    metadata["index"] = "1"
    assert (plain.field, plain.metadata) == ("", {"index": "0"})


def test_known_reason_text_becomes_a_reason_member():
    known, newer = (InvalidRequestError("no", reason=text).reason for text in ("NOT_DIVISIBLE", "SOMETHING_NEW"))
    assert known is Reason.NOT_DIVISIBLE
    assert (type(newer), newer) == (str, "SOMETHING_NEW")


@pytest.mark.parametrize("reason", [Reason.SERVER_BUSY, "SOMETHING_NEW"], ids=str)
@pytest.mark.parametrize("kind", [ReshapeError, InvalidRequestError, LimitError])
def test_reshape_error_survives_pickling_and_copying(kind: type[ReshapeError], reason: str):
    error = kind("no", reason=reason, field="shape[0]", metadata={"index": "0"})
    if isinstance(error, LimitError):
        error.retry_seconds = 0.5
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(twin), type(twin.reason)) == (kind, type(error.reason))
        assert (str(twin), twin.message, twin.reason, twin.field) == ("no", "no", reason, "shape[0]")
        assert twin.metadata == {"index": "0"}
        assert getattr(twin, "retry_seconds", None) == getattr(error, "retry_seconds", None)


# text, value
TEXTS: dict[str, object] = {
    "5": 5,
    "-5": np.int64(-5),
    "f32": "f32",
    "None": None,
    "[]": (),
    "[1, -1]": (1, -1),
    "[1, None]": [1, None],
    "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]": range(16),
    "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ... 17 items]": range(17),
}


def test_format_value_shortens_long_values():
    assert list(map(format_value, TEXTS.values())) == list(TEXTS)
    assert len(format_value([-(2**63)] * 1_000_000)) < 400


def test_texts_of_errors_are_cut_at_their_exact_limits():
    assert [format_value(number) for number in (2**256 - 1, 2**256, -(2**257))] == [
        *(str(2**256 - 1), "2^256 or beyond", "-2^257 or beyond")
    ]
    cut = [InvalidRequestError.of(Reason.NOT_DIVISIBLE, "m" * 768 + end, value="v" * 192 + end) for end in ("", "e")]
    assert [one.message for one in cut] == ["m" * 768, "m" * 765 + "..."]
    assert [one.metadata["value"] for one in cut] == ["v" * 192, "v" * 189 + "..."]
    assert clip_metadata({str(key): "v" * 193 for key in range(11)}) == {
        str(key): "v" * 189 + "..." for key in range(10)
    }


def test_format_value_escapes_control_characters():
    assert escape_unprintable("é\x1b[31m\n批\u202e\ud800\0") == "é\\x1b[31m\\n批\\u202e\\ud800\\x00"
