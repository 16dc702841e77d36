"""What a server process writes."""

import re
import subprocess
import sys

import grpc
import pytest

from remote_refusals import send_raw
from server_processes import run_server
from tensor_reshape.client import Client


def test_json_logs_have_a_time_a_level_a_logger_and_a_message():
    with run_server() as server:
        server.stop()
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in server.records)


def test_a_refusal_is_logged_at_debug_level_with_its_reason():
    with run_server("--log-level", "debug") as server:
        with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError):
            send_raw(channel, "StaticReshape", b"\xff")
        server.stop()
    refused = [record for record in server.records if record["message"] == "refused"]
    assert [(record["level"], record["reason"]) for record in refused] == [("DEBUG", "MESSAGE_MALFORMED")]


def test_a_refusal_is_silent_at_the_default_level():
    with run_server() as server:
        with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError):
            send_raw(channel, "StaticReshape", b"\xff")
        server.stop()
    assert [record["message"] for record in server.records] == ["listening", "serving", "stopping", "stopped"]


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
