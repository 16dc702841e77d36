"""The Open Inference Protocol over REST, on a server in this process."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from http_calls import Reply, change_body, connect, read_answer, request, write_body, write_request
from http_servers import CONFIG, run_http
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.asgi import LENGTH_HEADER, REASON_HEADER, Message
from tensor_reshape.server.http.calls import JSON_MEMORY_FACTOR, MEMORY_FACTOR
from tensor_reshape.server.http.transcoder import MAX_JSON_BYTES
from tensor_reshape.server.telemetry.metrics import CALLS, SharedCounters, list_methods
from waits import await_that

INFER = "/v2/models/reshape/infer"


def send_infer(address: str, body: bytes, payload: bytes | None = None, model: str = "reshape") -> Reply:
    """Sends an inference request, whose JSON is followed by `payload`."""
    headers = {} if payload is None else {LENGTH_HEADER: str(len(body))}
    return request(address, "POST", f"/v2/models/{model}/infer", body + (payload or b""), headers)


@pytest.mark.parametrize(
    ("path", "code", "document"),
    [
        ("/v2/health/live", 200, {"live": True}),
        ("/v2/health/ready", 200, {"ready": True}),
        ("/v2/health/ready/", 200, {"ready": True}),
        ("/v2/models/reshape/ready", 200, {"name": "reshape", "ready": True}),
        ("/v2/models/reshape/versions/1/ready", 200, {"name": "reshape", "ready": True}),
        ("/v2/models/reshape/versions/2/ready", 404, {"name": "reshape", "ready": False}),
        ("/v2/models/other/ready", 404, {"name": "other", "ready": False}),
    ],
)
def test_probe_reports_its_status(address: str, path: str, code: int, document: object):
    reply = request(address, "GET", path)
    assert (reply.code, reply.document) == (code, document)


def test_metadata_has_the_values_of_the_protocol(address: str):
    assert request(address, "GET", "/v2").document["name"] == "tensor-reshape"
    for path in ("/v2/models/reshape", "/v2/models/reshape/versions/1"):
        described = request(address, "GET", path).document
        assert (described["name"], described["versions"]) == ("reshape", ["1"])
        assert described["outputs"] == [{"name": "output", "datatype": "FP32", "shape": [-1]}]
    assert request(address, "GET", "/v2/models/reshape/config").document["input"][1]["optional"] is True


def test_repository_index_is_a_list(address: str):
    listed = request(address, "POST", "/v2/repository/index", b"{}").document
    assert {"name": "reshape", "version": "1", "state": "READY", "reason": ""} in listed


def test_statistics_count_requests():
    with run_http() as running:
        send_infer(running.address, write_body(), model="dynamic_reshape")
        for path in ("/v2/models/stats", "/v2/models/dynamic_reshape/stats"):
            described = request(running.address, "GET", path).document["model_stats"]
            assert {one["name"]: one["inference_count"] for one in described}["dynamic_reshape"] == 1


def test_inference_answers_with_numbers(address: str):
    reply = send_infer(address, change_body(write_body(target="[3,-1]"), id="mine"))
    assert reply.code == 200
    assert reply.document == {
        "model_name": "reshape",
        "model_version": "1",
        "id": "mine",
        "outputs": [{"name": "output", "datatype": "FP32", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6.5]}],
    }


def test_inference_answers_with_bytes(address: str):
    body = change_body(write_body(binary=24), outputs=[{"name": "output", "parameters": {"binary_data": True}}])
    reply = send_infer(address, body, bytes(range(24)))
    assert (reply.code, reply.headers["content-type"]) == (200, "application/octet-stream")
    assert reply.content[int(reply.headers[LENGTH_HEADER]) :] == bytes(range(24))


def test_shape_query_answers_with_conditions(address: str):
    data = {"name": "data_shape", "datatype": "INT64", "shape": [2], "data": [-1, 6]}
    reply = send_infer(address, change_body(write_body(target=[4, -1]), inputs=[data]), model="infer_shape")
    assert reply.document["outputs"][0]["data"] == [4, -1]
    assert reply.document["parameters"] == {"conditions": '["2 divides data[0]"]'}


def test_error_has_its_reason(address: str):
    reply = send_infer(address, write_body(target="[4,-1]"))
    assert (reply.code, reply.headers[REASON_HEADER]) == (400, Reason.NOT_DIVISIBLE)
    assert reply.document["error"].startswith("NOT_DIVISIBLE: shape[1] is -1: 6 elements are not divisible by 4")


def test_unknown_model_is_not_found(address: str):
    for reply in (send_infer(address, write_body(), model="other"), request(address, "GET", "/v2/models/other")):
        assert (reply.code, reply.headers[REASON_HEADER]) == (404, Reason.MODEL_UNKNOWN)


@pytest.mark.parametrize("path", ["any model", "any model/config", "any model/infer", "*", ""])
async def test_path_without_a_slash_does_not_exist(path: str):
    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(event: Message) -> None:
        sent.append(event)

    sent = list[Message]()
    app = Application(CONFIG)
    headers = [(b"host", b"localhost")]
    for method in ("GET", "POST"):
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        await app(scope, receive, send)
    app.end()
    assert [event["status"] for event in sent if "status" in event] == [404, 404]


def test_model_name_in_the_path_may_have_escapes(address: str):
    assert send_infer(address, write_body(), model="re%73hape").code == 200
    assert send_infer(address, write_body(), model="%ff%00").code == 404


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v2/other", 404),
        ("POST", "/v2/x", 404),
        ("GET", "/v2/models", 404),
        ("GET", "/v2/models//config", 404),
        ("GET", "/v2/any%20model/config", 404),
        ("GET", "/v2/models/reshape/nothing", 404),
        ("GET", "/v2/models/reshape/versions/1/nothing", 404),
        ("GET", "/v2/models/a/b/c/d", 404),
        ("GET", "/v2/health/nothing", 404),
        ("GET", INFER, 405),
        ("POST", "/v2", 405),
        ("DELETE", "/v2/models/reshape", 405),
        ("POST", "/v2/health/live", 405),
        ("GET", "/v2/repository/index", 405),
    ],
)
def test_wrong_path_or_method_is_rejected_in_the_form_of_the_protocol(address: str, method: str, path: str, code: int):
    reply = request(address, method, path, b"" if method == "POST" else None)
    assert (reply.code, reply.document.keys()) == (code, {"error"})
    assert ("allow" in reply.headers) == (code == 405)


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"content-encoding": "gzip"}], ids=str
)
def test_rejected_headers_get_an_error_of_the_protocol(address: str, headers: dict[str, str]):
    reply = request(address, "POST", INFER, write_body(), headers)
    assert reply.code in {421, 403, 415}
    assert reply.document.keys() == {"error"}


def test_large_request_is_served_on_another_thread(address: str):
    size = 1 << 20
    body = write_body(binary=size, datatype="INT8", shape=[size])
    body = change_body(body, parameters={"shape": "[-1]", "special_zero": True, "binary_data_output": True})
    reply = send_infer(address, body, bytes(size))
    assert int(reply.headers["content-length"]) == int(reply.headers[LENGTH_HEADER]) + size


def test_body_above_the_message_limit_is_rejected():
    with run_http(replace(CONFIG, max_message_bytes=1 << 20)) as running:
        size = 1 << 20
        reply = send_infer(running.address, write_body(binary=size, datatype="INT8", shape=[size]), bytes(size))
    assert (reply.code, reply.headers[REASON_HEADER]) == (413, Reason.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize(
    ("length", "code"),
    [
        (str(MAX_JSON_BYTES + 1), 413),
        ("x", 400),
        ("-1", 400),
        ("99999999999", 400),
        (str(len(write_body()) + 1), 400),
        (str(len(write_body())), 200),
    ],
)
def test_length_of_the_json_is_checked(address: str, length: str, code: int):
    assert request(address, "POST", INFER, write_body(), {LENGTH_HEADER: length}).code == code


def test_json_before_bytes_reserves_memory_as_json():
    with run_http() as running, connect(running.address) as connection:
        lengths = b"Inference-Header-Content-Length: 1000", b"Content-Length: 11000"
        connection.sendall(b"\r\n".join((f"POST {INFER} HTTP/1.1".encode(), b"Host: localhost", *lengths, b"", b"")))
        await_that(lambda: running.admission.used_bytes > 0)
        assert running.admission.used_bytes == 1000 * JSON_MEMORY_FACTOR + 10_000 * MEMORY_FACTOR


def test_json_above_its_limit_is_rejected(address: str):
    reply = request(address, "POST", INFER, write_body().ljust(MAX_JSON_BYTES + 1))
    assert (reply.code, reply.headers[REASON_HEADER]) == (413, Reason.MESSAGE_TOO_LARGE)
    assert "send the elements as binary data" in reply.document["error"]


def test_chunked_json_is_answered(address: str):
    body = write_body()
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(address) as connection:
        connection.sendall(head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert read_answer(connection)[0] == 200


def test_inference_is_counted_as_over_grpc():
    counters = SharedCounters(list_methods())
    with run_http(counters=counters) as running:
        send_infer(running.address, write_body())
        request(running.address, "GET", "/v2/models/reshape")
        running.await_free()
    for method in ("ModelInfer", "ModelMetadata"):
        assert counters.cells[CALLS]["inference.GRPCInferenceService", method, "OK"][0] == 1


def test_probes_are_not_counted():
    counters = SharedCounters(list_methods())
    with run_http(counters=counters) as running:
        for path in ("/v2/health/ready", "/v2/models/reshape/ready", "/healthz"):
            request(running.address, "GET", path)
    assert not any(cell[0] for cell in counters.cells[CALLS].values())


@pytest.fixture
def with_token(tmp_path: Path) -> Iterator[str]:
    """The address of a server that needs the token 0123456789abcdef0123456789abcdef."""
    tokens = tmp_path / "tokens"
    tokens.write_text("me:" + "0123456789abcdef" * 2)
    with run_http(replace(CONFIG, token_file=tokens)) as running:
        yield running.address


def test_calls_need_the_token_and_probes_do_not(with_token: str):
    assert send_infer(with_token, write_body()).code == 401
    assert request(with_token, "GET", "/v2/models/reshape").code == 401
    assert request(with_token, "GET", "/v2/health/ready").code == 200
    headers = {"authorization": f"Bearer {'0123456789abcdef' * 2}"}
    assert request(with_token, "GET", "/v2/models/reshape", headers=headers).code == 200


def test_request_for_a_description_may_have_a_body(address: str):
    with connect(address) as connection:
        for _ in range(2):
            connection.sendall(write_request(b"{}", path="/v2", method="GET"))
            assert read_answer(connection)[0] == 200
