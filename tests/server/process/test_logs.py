"""Formats of the log."""

import json
import logging
import shlex

import pytest
from google.protobuf.message import DecodeError

from tensor_reshape.server.process.logs import _build_formatter, demote_garbage

EVIL = "a\nb\rc\x1b[31md\x00\u2028e\x85"


def format_record(log_format: str, message: str, *, broken: bool = False, **extra: object) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "test", **extra})
    if broken:
        error = RuntimeError(EVIL)
        record.exc_info = (RuntimeError, error, None)
    return _build_formatter(log_format).format(record)


def is_one_printable_line(line: str) -> bool:
    return len(line.splitlines()) == 1 and line.isprintable()


def test_text_log_escapes_control_characters():
    for log_format in ("text", "json"):
        assert is_one_printable_line(format_record(log_format, EVIL))
        assert is_one_printable_line(format_record(log_format, "rejected", method=EVIL))


def test_json_log_record_with_a_traceback_is_one_line():
    line = format_record("json", "bug", broken=True)
    assert (is_one_printable_line(line), "RuntimeError" in line) == (True, True)


def test_text_log_indents_tracebacks():
    record, *traceback = format_record("text", "bug", broken=True).split("\n")
    assert is_one_printable_line(record)
    assert all(line.startswith("    ") and is_one_printable_line(line) for line in traceback)
    assert "RuntimeError" in "".join(traceback)


def test_text_log_quotes_values_after_the_message():
    assert format_record("text", "listening", address="a:1").endswith(" INFO listening address=a:1")
    for value in ('a code=OK "peer=b', "", "a=b", '"', "\\", "two words"):
        *_, last = shlex.split(format_record("text", "rejected", method=value, code="OK"))
        line = shlex.split(format_record("text", "rejected", method=value))
        assert (last, len(line), line[-1]) == ("code=OK", 4, f"method={value}")


def test_json_log_has_values_as_fields():
    record = json.loads(format_record("json", EVIL, method=EVIL, index=1))
    assert (record["message"], record["method"], record["index"]) == (EVIL, EVIL, 1)
    assert {"time", "level", "logger", "message"} <= record.keys()


@pytest.mark.parametrize("error", [DecodeError("garbage"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "garbage")])
@pytest.mark.parametrize(("level", "logged"), [("DEBUG", True), ("INFO", False)])
def test_grpc_decoding_errors_are_logged_as_debug_without_traceback(
    error: Exception, level: str, logged: bool, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(level)
    record = logging.makeLogRecord(
        {"levelno": logging.ERROR, "levelname": "ERROR", "exc_info": (type(error), error, None), "msg": "Bearer secret"}
    )
    assert demote_garbage(record) is logged
    assert (record.levelname, record.exc_info) == ("DEBUG", None)
    assert "secret" not in record.getMessage()


def test_exceptions_other_than_decoding_errors_are_logged_as_errors(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    error = ValueError("a bug")
    record = logging.makeLogRecord({"levelname": "ERROR", "exc_info": (type(error), error, None)})
    assert demote_garbage(record)
    assert (record.levelname, record.exc_info is None) == ("ERROR", False)
