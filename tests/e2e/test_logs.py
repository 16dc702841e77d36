"""The log of a server."""

import re
import subprocess
import sys

import grpc

from http2 import SERVICE_PATH, Connection
from plain_requests import catch_status, read_trailing, send_raw
from server_processes import Record, ServerProcess, run_server

RESHAPE = f"{SERVICE_PATH}StaticReshape"


def reject(server: ServerProcess, *metadata: tuple[str, str]) -> dict[str, str | bytes]:
    """Makes a rejected call and returns its trailing metadata."""
    with grpc.insecure_channel(server.address) as channel:
        return read_trailing(catch_status(lambda: send_raw(channel, RESHAPE, b"\xff", metadata=metadata)))


def find(server: ServerProcess, message: str) -> list[Record]:
    return [record for record in server.records if record["message"] == message]


def test_rejection_log_records_are_rate_limited_per_kind():
    with run_server() as server:
        trailing = reject(server, ("x-request-id", "ours"))
        with Connection(server.address) as connection:
            for _ in range(100):
                assert connection.call(RESHAPE, b"\xff").status == "3"
            assert connection.call('/Static%0a{"message": "forged"}', b"").status == "12"
        server.stop()
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in server.records)
    first, *others = find(server, "rejected")
    read = [first[name] for name in ("level", "method", "code", "reason", "request_id")]
    assert read == ["INFO", RESHAPE, "INVALID_ARGUMENT", "MESSAGE_MALFORMED", "ours"]
    assert (first["peer"].startswith("ipv4:127.0.0.1:"), 0 <= first["seconds"] < 60) == (True, True)
    assert trailing["x-request-id"] == "ours"
    codes = [line["code"] for line in others]
    suppressed = sum(line["suppressed"] for line in find(server, "records suppressed"))
    assert (codes.count("INVALID_ARGUMENT") + suppressed, codes.count("UNIMPLEMENTED")) == (100, 1)
    assert (suppressed > 0, find(server, "forged")) == (True, [])


def test_workers_use_the_configured_log_level():
    with run_server("--workers", "2", "--log-level", "debug") as server:
        for _ in range(50):  # more lines in a second than other levels allow
            reject(server)
        server.await_records(50, "rejected")


def test_text_log_has_a_line_for_each_record():
    flags = ["--listen", "127.0.0.1:0", "--drain-seconds", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensor_reshape.server", *flags], stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.terminate()
        rest = process.stderr.read().splitlines()
    assert re.fullmatch(r"\S+ INFO listening address=127\.0\.0\.1:\d+ tls=False io_engine=polling\n", first)
    assert [line.split()[2] for line in rest] == ["serving", "stopping", "stopped"]
