"""Servers with gRPC and HTTP as users run them: results, TLS, tokens, processes, shutdown, logs, metrics and traces."""

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from certificates import issue_certificates
from command_line import run_module
from http_calls import (
    ANSWER,
    BATCH_PATH,
    INFER_PATH,
    QUESTION,
    change_body,
    connect,
    find_http,
    post,
    read_answer,
    receive_all,
    request,
    write_body,
    write_json,
    write_request,
)
from interruptions import Figures, keep_calling
from meters import list_children, read_descriptors
from plain_requests import SIX, begin, chunk, open_stream
from server_processes import ServerProcess, await_end, run_server
from telemetry import Collector, Scrape, await_scrape, find_metrics, read_attributes, run_collector, scrape
from tensor_reshape.client import Client, HealthStatus, ShapeQuery
from tensor_reshape.rules.errors import Reason
from tensor_reshape.wire.methods import SERVICE
from waits import await_that

ANY = "127.0.0.1:0"
BATCH, VIEWER, UNKNOWN = "batch-" * 8, "viewer-" * 8, "nobody-" * 8
HTTP = 2  # the worker that serves HTTP
HTTP_COMMAND = ("tensor_reshape.cli", "http")
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def observed() -> Iterator[tuple[ServerProcess, Collector]]:
    """A server with both protocols, metrics, an access log and traces, and the collector of its traces."""
    flags = ("--http-listen", ANY, "--metrics-listen", ANY, "--log-level", "debug", "--tracing")
    with run_collector() as collector, run_server(*flags, env=collector.variables) as server:
        yield server, collector


@pytest.fixture
def both(observed: tuple[ServerProcess, Collector]) -> ServerProcess:
    return observed[0]


def test_http_and_grpc_return_the_same_results(both: ServerProcess):
    with Client(both.address) as client:
        answer = client.infer_shape([2, "N"], [-1], special_zero=True)
        assert client.infer_shapes([ShapeQuery(data_shape=[2, "N"], shape=[-1], special_zero=True)]) == [answer]
    assert [str(dim) for dim in answer.dims or ()] == ["2*N"]
    assert post(find_http(both)).document == ANSWER
    assert post(find_http(both), {"items": [{"question": QUESTION}]}, BATCH_PATH).document["results"] == [
        {"answer": ANSWER}
    ]


def test_http_call_is_counted_logged_and_traced(observed: tuple[ServerProcess, Collector]):
    both, collector = observed
    question = {**QUESTION, "shape": {"items": [-2]}}
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "seen"}
    assert post(find_http(both), question, headers=headers).reason == Reason.INVALID_TARGET_VALUE
    (line,) = both.await_records(1, "rejected", request_id="seen")
    assert (line["method"], line["code"], line["field"]) == (INFER_PATH, "INVALID_ARGUMENT", "shape[0]")
    (line,) = both.await_records(1, "call", request_id="seen")
    assert (line["worker"], line["request_bytes"] > 0) == (HTTP, True)
    service, method = INFER_PATH[1:].split("/")
    labels = {"service": service, "method": method, "code": "INVALID_ARGUMENT"}
    await_scrape(find_metrics(both), lambda page: page.find("tensor_reshape_calls_total", **labels) >= 1)
    (span,) = collector.await_spans(1, TRACE)
    assert span.name == "tensor_reshape.v1.ReshapeService/InferShape"
    assert read_attributes(span)["tensor_reshape.request_id"] == "seen"


def test_one_metrics_port_counts_the_calls_of_all_processes(both: ServerProcess):
    url = find_metrics(both)
    before = count_good_calls(scrape(url), "InferShape")
    with Client(both.address) as client:
        client.infer_shape([2, "N"], [-1], special_zero=True)
    post(find_http(both))
    page = await_scrape(url, lambda page: count_good_calls(page, "InferShape") >= before + 2)
    assert (page.find("tensor_reshape_workers"), page.find("tensor_reshape_serving_workers")) == (2, 2)


def test_http_calls_are_active_until_their_response(both: ServerProcess):
    def await_count(count: int) -> None:
        await_scrape(
            find_metrics(both), lambda page: page.find("tensor_reshape_active_calls", state="working") == count
        )

    await_count(0)
    with connect(find_http(both)) as one, connect(find_http(both)) as other, connect(find_http(both)):
        for busy in (one, other):  # the third connection has no call
            busy.sendall(write_request(b"{", length=100))
        await_count(2)
    await_count(0)


def test_killed_http_process_is_replaced_without_failed_grpc_calls():
    figures = Figures()
    with (
        run_server("--http-listen", ANY, "--metrics-listen", ANY) as server,
        keep_calling(server.address, figures, rest_seconds=0.02),
    ):
        address = find_http(server)
        figures.await_calls(10)
        os.kill(server.find_pid(HTTP), signal.SIGKILL)
        server.await_records(2, "worker serves", worker=HTTP)
        assert post(address).document == ANSWER
        figures.await_calls(10)
        page = await_scrape(find_metrics(server), lambda page: page.find("tensor_reshape_serving_workers") == 2)
        assert page.find("tensor_reshape_worker_restarts_total", worker=f"{HTTP}") == 1
        assert page.find("tensor_reshape_worker_restarts_total", worker="1") == 0
    assert figures.failures == []


def test_both_processes_exit_when_the_supervisor_is_killed():
    with run_server("--http-listen", ANY) as server:
        pids = server.find_pid(1), server.find_pid(HTTP)
        server.process.kill()
        for pid in pids:
            await_end(pid)
    causes = {(record["worker"], record["cause"]) for record in server.records if record["message"] == "stopping"}
    assert causes == {(1, "the supervisor has ended"), (HTTP, "the supervisor has ended")}


def test_http_works_beside_a_unix_socket(tmp_path: Path):
    with run_server("--http-listen", ANY, listen=(f"unix:{tmp_path}/socket",)) as server:
        with Client(server.address) as client:
            assert client.check_health() is HealthStatus.SERVING
        assert post(find_http(server)).document == ANSWER
        assert server.stop() == 0


def test_http_command_serves_without_grpc():
    flags = ("--listen", ANY, "--tracing")
    with run_collector() as collector:
        with run_server(*flags, listen=(), command=HTTP_COMMAND, env=collector.variables) as server:
            address = find_http(server)
            assert post(address).document == ANSWER
            await_scrape(f"http://{address}/metrics", lambda page: count_good_calls(page, "InferShape") == 1)
            assert "cygrpc" not in Path(f"/proc/{server.process.pid}/maps").read_text()
            assert list_children(server.process.pid) == []
            assert server.stop() == 0
        assert [span.name for span in collector.await_spans(1)] == ["tensor_reshape.v1.ReshapeService/InferShape"]


@pytest.mark.parametrize("flags", [("--check-config",), ()], ids=["check", "start"])
def test_http_without_its_extra_names_the_extra(flags: tuple[str, ...], tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['httptools'] = None")
    addresses = ("--listen", ANY, "--http-listen", ANY)
    outcome = run_module("tensor_reshape.server", *addresses, *flags, env={"PYTHONPATH": str(tmp_path)})
    *_, line = outcome.errors  # the worker for gRPC may have served before
    assert (outcome.code, "needs the extra http, because httptools is missing" in line) == (1, True)


def test_both_protocols_complete_running_calls_while_the_server_drains():
    with (
        run_server("--http-listen", ANY, "--drain-seconds", "60") as server,
        grpc.insecure_channel(server.address) as channel,
        open_stream(channel, begin()) as stream,
    ):
        address, body = find_http(server), write_json(QUESTION)
        stream.accept()
        with connect(address) as busy, connect(address) as idle:
            busy.sendall(write_request(body[:10], length=len(body)))
            assert request(address, "GET", "/readyz").code == 200
            server.process.send_signal(signal.SIGTERM)
            await_that(lambda: request(address, "GET", "/readyz").code == 503)
            assert request(address, "GET", "/healthz").code == 200  # the process works
            assert post(address).code == 200  # a load balancer may still send calls
            busy.sendall(body[10:])
            assert read_answer(busy) == (200, json.dumps(ANSWER, separators=(",", ":")).encode())
            stream.send(chunk(0, SIX))
            assert stream.receive(len(SIX)) == SIX
            stream.finish()
            server.process.send_signal(signal.SIGTERM)
            assert receive_all(idle) == b""
        assert server.wait() == 0


def test_http_port_survives_exhausted_file_descriptors():
    with run_server("--http-listen", ANY) as server:
        server.await_records(1, "serving")  # before this record, it still opens files
        pid, address = server.find_pid(HTTP), find_http(server)
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        limit = max(read_descriptors(pid)) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
        with ExitStack() as stack:
            for _ in range(limit):  # more connections than free descriptors below the limit
                stack.enter_context(connect(address))
            waiting = stack.enter_context(connect(address))
            waiting.sendall(write_request(write_json(QUESTION)))
            await_that(lambda: any(record.get("logger") == "asyncio" for record in server.records))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
            assert read_answer(waiting)[0] == 200
        assert server.stop() == 0


def find_named(server: ServerProcess) -> str:
    return find_http(server).replace("127.0.0.1", "localhost")


def test_http_token_permits_only_its_methods(tmp_path: Path):
    files = issue_certificates(tmp_path)
    (tmp_path / "tokens").write_text(f"batch:{BATCH}\nviewer:{VIEWER}\n")
    (tmp_path / "permitted.toml").write_text(
        f'[callers]\n"token:batch" = ["*"]\n"token:viewer" = ["/{SERVICE}/InferShape"]\n'
    )
    flags = ["--token-file", tmp_path / "tokens", "--authorization-file", tmp_path / "permitted.toml"]
    with run_server(*files.flags, *map(str, flags), "--log-level", "debug", "--http-listen", ANY) as server:
        address, context = find_named(server), files.build_context()
        for token, path, code in (
            (BATCH, INFER_PATH, 200),
            (BATCH, BATCH_PATH, 200),
            (VIEWER, INFER_PATH, 200),
            (VIEWER, BATCH_PATH, 403),
            (UNKNOWN, INFER_PATH, 401),
            ("", INFER_PATH, 401),
        ):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            reply = post(address, QUESTION if path == INFER_PATH else {"items": []}, path, headers, context=context)
            assert (reply.code, "www-authenticate" in reply.headers) == (code, code == 401), (token, path)
        for path in ("/healthz", "/readyz"):
            assert request(address, "GET", path, context=context).code == 200
        server.stop()
    log = "".join(map(str, server.records))
    assert all(token not in log for token in (BATCH, VIEWER, UNKNOWN))


def test_call_over_tls_is_active_until_the_client_has_read_the_response(tmp_path: Path):
    files = issue_certificates(tmp_path)
    payload = bytes(15 << 20)  # more than the buffers of both systems
    parameters = {"shape": "[-1]", "special_zero": False, "binary_data_output": True}
    body = change_body(write_body(shape=[len(payload) // 4], binary=len(payload)), parameters=parameters)
    length = b"Inference-Header-Content-Length: %d" % len(body)
    with (
        run_server(*files.flags, "--http-listen", ANY, "--metrics-listen", ANY) as server,
        files.build_context().wrap_socket(connect(find_http(server)), server_hostname="localhost") as connection,
    ):
        connection.sendall(write_request(body + payload, length, path="/v2/models/reshape/infer"))
        assert connection.recv(12) == b"HTTP/1.1 200"
        post(find_named(server), context=files.build_context())
        page = await_scrape(find_metrics(server), lambda page: count_good_calls(page, "InferShape") == 1)
        assert count_good_calls(page, "ModelInfer") == 0
        received = 0
        while received < len(payload):
            received += len(connection.recv(1 << 20))
        await_scrape(find_metrics(server), lambda page: count_good_calls(page, "ModelInfer") == 1)


def count_good_calls(page: Scrape, method: str) -> float:
    return page.sum("tensor_reshape_calls_total", method=method, code="OK")
