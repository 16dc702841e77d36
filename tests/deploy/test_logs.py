"""The examples of docs/deployment/logs.md, compared with the records of real servers."""

import ast
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from documents import ROOT, read_blocks
from http_calls import connect, find_http, receive_all, request
from plain_requests import catch_status, send_raw
from server_processes import Record, ServerProcess, run_server
from tensor_reshape.client import Client
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.statuses import build_failure
from tensor_reshape.server.process.logs import QueuedHandler, _build_formatter
from tensor_reshape.server.telemetry.call_logs import log_failure, log_refusal

BLOCKS = read_blocks(ROOT / "docs/deployment/logs.md")
TEXTS, DOCUMENTS = ([one.text for one in BLOCKS if one.language == language] for language in ("text", "json"))
EXAMPLES: list[Record] = [json.loads(line) for text in DOCUMENTS for line in text.splitlines()]
ANY = "127.0.0.1:0"
METHOD = "/tensor_reshape.v1.ReshapeService/InferShape"
NOT_CAUSED = {"the tool that has replaced grpc.server creates no spans for calls of this server. Use --tracing"}
"""Messages of examples that these tests do not cause."""

END_PROCESS = """
from tensor_reshape.server.process import housekeeping, logs

logs.configure_logs("json", "info")
housekeeping.end_process("the test ends the process")
"""


def describe(record: Record) -> tuple[Any, ...]:
    """Returns the message, the level, the logger, and the name and type of each value in order.

    Each process adds the number of its worker to its records, so this value does not count.
    """
    kinds = [(name, type(value)) for name, value in record.items() if name != "worker" or "pid" in record]
    return record["message"], record["level"], record["logger"], *kinds


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return [
        *cause_records_of_workers(tmp_path_factory.mktemp("files") / "tokens"),
        *cause_records_of_one_process(),
        *cause_records_of_broken_calls(),
    ]


def cause_records_of_workers(tokens: Path) -> list[Record]:
    secrets = ["x" * 40, "y" * 40]
    tokens.write_text(f"batch:{secrets[0]}\n")
    ports = ("--http-listen", ANY, "--health-listen", ANY, "--metrics-listen", ANY)
    with run_server("--workers", "auto", *ports, "--token-file", str(tokens)) as server:
        (serving,) = server.await_records(1, "serving")
        with grpc.insecure_channel(server.address) as channel:
            metadata = (("authorization", f"Bearer {secrets[0]}"),)
            for _ in range(30):
                catch_status(lambda: send_raw(channel, "StaticReshape", b"\xff", metadata=metadata))
        server.await_records(1, "records suppressed")
        reject_over_http(find_http(server))
        processes = serving["workers"] + 1
        tokens.write_text(f"batch:{secrets[1]}\n")
        server.await_records(processes, "reloaded")
        tokens.unlink()
        server.await_records(processes, "not reloaded")
        os.kill(server.find_pid(1), signal.SIGKILL)
        server.await_records(1, "worker cannot be started")
        tokens.write_text(f"batch:{secrets[1]}\n")
        server.await_records(2, "worker serves", worker=1)
        os.kill(server.find_pid(processes), signal.SIGSTOP)  # the process for HTTP, which serves as long as it responds
        server.await_records(1, "worker hangs")
        server.stop()
    return server.records


def reject_over_http(address: str) -> None:
    request(address, "GET", "/nothing")
    with connect(address) as connection:
        connection.sendall(b"no HTTP\r\n\r\n")
        receive_all(connection)


def cause_records_of_one_process() -> Iterator[Record]:
    def call(server: ServerProcess) -> None:
        with Client(server.address.replace("0.0.0.0", "127.0.0.1")) as client:
            client.infer_shape((2, 3), (3, -1), special_zero=False)

    with run_server("--log-level", "debug", "--memory-budget-bytes", "100TiB", listen=("0.0.0.0:0",)) as server:
        call(server)
        server.stop()
        yield from server.records
    with run_server(prefix=("prlimit", "--data=700000000")) as server:
        server.stop()
        yield from server.records
    done = subprocess.run([sys.executable, "-c", END_PROCESS], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    yield json.loads(done.stderr)


def cause_records_of_broken_calls() -> list[Record]:
    reader, writer = os.pipe()
    handler, logger = QueuedHandler(writer), logging.getLogger("tensor_reshape.server")
    handler.setFormatter(_build_formatter("json"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        for error in (ZeroDivisionError("a bug"), MemoryError()):
            info = CallInfo(METHOD, (), "ipv4:192.0.2.7:58268", dict)
            failure = build_failure(error, info)
            log_failure(info, failure.result, 0.0, failure.field, failure.detail)
        log_refusal("ipv4:192.0.2.7")
        handler.handleError(logging.makeLogRecord({}))
        handler.flush()
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
        os.close(writer)
    with os.fdopen(reader) as log:
        return [json.loads(line) for line in log]


@pytest.mark.timeout(120)  # a worker hangs for ten seconds before its supervisor kills it
def test_json_examples_have_the_values_of_real_records(records: list[Record]):
    real = {describe(record) for record in records}
    different = [example for example in EXAMPLES if describe(example) not in real]
    assert {example["message"] for example in different} == NOT_CAUSED, different


@pytest.mark.parametrize(("shown", "document"), [*zip(TEXTS, DOCUMENTS, strict=True)])
def test_text_examples_show_the_same_records_as_the_json_examples(shown: str, document: str):
    written = "\n".join(write_text(json.loads(line)) for line in document.splitlines())
    assert [*map(move_to_utc, shown.splitlines())] == [*map(move_to_utc, written.splitlines())]


def move_to_utc(line: str) -> str:
    """Replaces the local time at the beginning of a record."""
    local, _, rest = line.partition(" ")
    return f"{datetime.fromisoformat(local).astimezone(UTC)} {rest}" if local else line


def write_text(record: Record) -> str:
    """Returns the record as the text format writes it."""
    values = dict(record)
    created = datetime.fromisoformat(values.pop("time")).timestamp()
    known = {"msg": values.pop("message"), "levelname": values.pop("level"), "created": created}
    del values["logger"]
    traceback = [f"    {line}" for line in values.pop("exc_info", "").splitlines()]
    line = _build_formatter("text").format(logging.makeLogRecord(known | values))
    return "\n".join([line, *traceback])


def list_messages(tree: ast.AST) -> Iterator[str]:
    """Yields the constant messages of the log records that a module writes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("_LOGGER.", "self._log")):
            yield from (
                one.value
                for argument in node.args[:2]
                for one in ast.walk(argument)
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def test_log_page_has_an_example_of_each_record_of_the_server():
    modules = (ROOT / "server").rglob("*.py")
    written = {message for module in modules for message in list_messages(ast.parse(module.read_text()))}
    assert {example["message"] for example in EXAMPLES} == written
