"""What a server process writes."""

import re
import subprocess
import sys

import grpc
import pytest

from command_line import run_module
from http2 import SERVICE_PATH, Connection
from plain_requests import build_static_request
from remote_refusals import catch_status, read_trailing, send_raw
from server_processes import Record, ServerProcess, run_server
from tensor_reshape.client import Client

RESHAPE = f"{SERVICE_PATH}StaticReshape"


def refuse(server: ServerProcess, *metadata: tuple[str, str]) -> dict[str, str | bytes]:
    """Makes a call that is refused, and returns its trailing metadata."""
    with grpc.insecure_channel(server.address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(RESHAPE)
        return read_trailing(catch_status(lambda: method(b"\xff", metadata=metadata, timeout=20)))


def find(server: ServerProcess, message: str) -> list[Record]:
    return [record for record in server.records if record["message"] == message]


def test_json_logs_have_a_time_a_level_a_logger_and_a_message(serving: str):
    with run_server("--serving", serving) as server:
        server.stop()
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in server.records)


def test_a_refusal_is_a_line_that_says_whose_call_it_was_and_what_it_is_called(serving: str):
    with run_server("--serving", serving) as server:
        told = refuse(server, ("x-request-id", "ours"))
        server.stop()
    (line,) = find(server, "refused")
    said = [line[name] for name in ("level", "method", "code", "reason", "request_id")]
    assert said == ["INFO", RESHAPE, "INVALID_ARGUMENT", "MESSAGE_MALFORMED", "ours"]
    assert (line["peer"].startswith("ipv4:127.0.0.1:"), 0 <= line["seconds"] < 60) == (True, True)
    assert told["x-request-id"] == "ours"


def test_refusals_of_one_kind_are_limited_and_counted_and_others_are_not_hidden(serving: str):
    with run_server("--serving", serving) as server:
        with Connection(server.address) as connection:
            for _ in range(100):
                assert connection.call(RESHAPE, b"\xff").status == "3"
            assert connection.call("/a.Service/Method", b"").status == "12"
        server.stop()
    codes = [line["code"] for line in find(server, "refused")]
    suppressed = [line["suppressed"] for line in find(server, "records suppressed")]
    assert (codes.count("INVALID_ARGUMENT") + sum(suppressed), codes.count("UNIMPLEMENTED")) == (100, 1)
    assert codes.count("INVALID_ARGUMENT") < 100


def test_at_debug_level_every_refusal_is_a_line(serving: str):
    with run_server("--serving", serving, "--log-levels", "calls=debug") as server:
        with Connection(server.address) as connection:
            for _ in range(100):
                assert connection.call(RESHAPE, b"\xff").status == "3"
        server.stop()
    assert (len(find(server, "refused")), find(server, "records suppressed")) == (100, [])


def test_a_module_may_say_less_than_the_others(serving: str):
    with run_server("--serving", serving, "--log-levels", "calls=warning") as server:
        refuse(server)
        server.stop()
    assert [record["message"] for record in server.records] == ["listening", "serving", "stopping", "stopped"]


def test_workers_have_the_levels_of_their_server():
    with run_server(
        "--workers", "2", "--log-level", "error", "--log-levels", "calls=info,introductions=info"
    ) as server:
        refuse(server)
        server.await_records(1, "refused")
        server.stop()
    assert {record["message"] for record in server.records} == {"listening", "serving", "refused"}


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        ("calls", "calls"),
        ("calls=loud", "loud"),
        ("cals=debug", "no module cals"),
        ("a.b=info", "no module a.b"),
        ("calls.__init__=debug", "no module calls.__init__"),
    ],
)
def test_levels_that_would_change_nothing_are_refused(levels: str, why: str):
    outcome = run_module("tensor_reshape.server", "--log-levels", levels)
    assert (outcome.code, why in str(outcome.errors)) == (1, True)


def test_the_access_log_has_every_call_and_tells_every_caller_its_id(serving: str):
    with run_server("--serving", serving, "--access-log", "1") as server:
        with grpc.insecure_channel(server.address) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(RESHAPE)
            _, made = method.with_call(build_static_request(), metadata=(("x-request-id", "ours"),), timeout=20)
        refuse(server)
        server.await_records(2, "call")
        server.stop()
    good, bad = find(server, "call")
    assert (good["code"], good["request_id"], good["sampled"]) == ("OK", "ours", 1.0)
    assert read_trailing(made)["x-request-id"] == "ours"
    assert (bad["code"], bad["reason"]) == ("INVALID_ARGUMENT", "MESSAGE_MALFORMED")
    assert bad["request_id"] == find(server, "refused")[0]["request_id"]


def test_text_logs_have_a_line_for_each_record():
    flags = ["--listen", "127.0.0.1:0", "--drain-seconds", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensor_reshape.server", *flags], stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.terminate()
        rest = process.stderr.read().splitlines()
    assert re.fullmatch(r"\S+ INFO listening address=127\.0\.0\.1:\d+ tls=False engine=polling\n", first)
    assert [line.split()[2] for line in rest] == ["serving", "stopping", "stopped"]


def test_a_method_name_with_control_characters_starts_no_line_of_its_own():
    with run_server("--log-level", "debug") as server, Client(server.address) as client:
        with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError):
            send_raw(channel, 'Static%0a{"message": "forged"}', b"")
        client.check_health()
        server.stop()
    assert "forged" not in {record["message"] for record in server.records}
    assert [line["code"] for line in find(server, "refused")] == ["UNIMPLEMENTED"]
