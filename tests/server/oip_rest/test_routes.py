"""The paths of the Open Inference Protocol, on a server in this process."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from http_calls import request
from in_process import ANY_PORT, run_runner
from infer_bodies import change_body, write_body
from rest_requests import send_infer
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER, REASON_HEADER

CONFIG = Config(listen=(ANY_PORT,), http_listen=ANY_PORT, drain_seconds=0, shutdown_grace_seconds=0)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with run_runner(CONFIG) as runner:
        yield str(runner.http_address)


@pytest.mark.parametrize(
    ("path", "code", "document"),
    [
        ("/v2/health/live", 200, {"live": True}),
        ("/v2/health/ready", 200, {"ready": True}),
        ("/v2/models/reshape/ready", 200, {"name": "reshape", "ready": True}),
        ("/v2/models/reshape/versions/1/ready", 200, {"name": "reshape", "ready": True}),
        ("/v2/models/reshape/versions/2/ready", 404, {"name": "reshape", "ready": False}),
        ("/v2/models/other/ready", 404, {"name": "other", "ready": False}),
    ],
)
def test_rest_probe_reports_its_status(address: str, path: str, code: int, document: object):
    reply = request(address, "GET", path)
    assert (reply.code, reply.document) == (code, document)


def test_rest_metadata_has_the_values_of_the_protocol(address: str):
    assert request(address, "GET", "/v2").document["name"] == "tensor-reshape"
    for path in ("/v2/models/reshape", "/v2/models/reshape/versions/1"):
        described = request(address, "GET", path).document
        assert (described["name"], described["versions"]) == ("reshape", ["1"])
        assert described["outputs"] == [{"name": "output", "datatype": "FP32", "shape": [-1]}]
    assert request(address, "GET", "/v2/models/reshape/config").document["input"][1]["optional"] is True


def test_repository_index_is_a_list(address: str):
    listed = request(address, "POST", "/v2/repository/index", b"{}").document
    assert {"name": "reshape", "version": "1", "state": "READY"} in listed


def test_rest_statistics_count_rest_requests(address: str):
    send_infer(address, write_body(), model="dynamic_reshape")
    for path in ("/v2/models/stats", "/v2/models/dynamic_reshape/stats"):
        counts = {one["name"]: one["inference_count"] for one in request(address, "GET", path).document["model_stats"]}
        assert counts["dynamic_reshape"] == 1


def test_rest_inference_answers_with_numbers(address: str):
    reply = send_infer(address, change_body(write_body(target="[3,-1]"), id="mine"))
    assert reply.code == 200
    assert reply.document == {
        "model_name": "reshape",
        "model_version": "1",
        "id": "mine",
        "outputs": [{"name": "output", "datatype": "FP32", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6.5]}],
    }


def test_rest_inference_answers_with_bytes(address: str):
    body = change_body(write_body(binary=24), outputs=[{"name": "output", "parameters": {"binary_data": True}}])
    reply = send_infer(address, body, bytes(range(24)))
    assert (reply.code, reply.headers["content-type"]) == (200, "application/octet-stream")
    assert int(reply.headers["content-length"]) == int(reply.headers[LENGTH_HEADER]) + 24


def test_rest_shape_query_answers_with_conditions(address: str):
    data = {"name": "data_shape", "datatype": "INT64", "shape": [2], "data": [-1, 6]}
    reply = send_infer(address, change_body(write_body(target=[4, -1]), inputs=[data]), model="infer_shape")
    assert reply.document["outputs"][0]["data"] == [4, -1]
    assert reply.document["parameters"] == {"conditions": '["2 divides data[0]"]'}


def test_rest_error_has_its_reason(address: str):
    reply = send_infer(address, write_body(target="[4,-1]"))
    assert (reply.code, reply.headers[REASON_HEADER]) == (400, Reason.NOT_DIVISIBLE)
    assert reply.document["error"].startswith("NOT_DIVISIBLE: shape[1] is -1: 6 elements are not divisible by 4")


def test_unknown_rest_model_is_not_found(address: str):
    for reply in (send_infer(address, write_body(), model="other"), request(address, "GET", "/v2/models/other")):
        assert (reply.code, reply.headers[REASON_HEADER]) == (404, Reason.MODEL_UNKNOWN)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v2/other"), ("GET", "/v2/models/reshape/infer"), ("POST", "/v2/x")]
)
def test_unknown_rest_path_is_not_found(address: str, method: str, path: str):
    assert request(address, method, path, b"" if method == "POST" else None).document.keys() == {"error"}


def test_large_rest_request_is_served_on_another_thread(address: str):
    size = 1 << 20
    body = write_body(binary=size, datatype="INT8", shape=[size])
    body = change_body(body, parameters={"shape": "[-1]", "special_zero": True, "binary_data_output": True})
    reply = send_infer(address, body, bytes(size))
    assert int(reply.headers["content-length"]) == int(reply.headers[LENGTH_HEADER]) + size


def test_body_above_the_message_limit_is_rejected():
    with run_runner(replace(CONFIG, max_message_bytes=1 << 20)) as runner:
        size = 1 << 20
        reply = send_infer(
            str(runner.http_address), write_body(binary=size, datatype="INT8", shape=[size]), bytes(size)
        )
        assert (reply.code, reply.headers[REASON_HEADER]) == (413, Reason.MESSAGE_TOO_LARGE)


def test_rest_calls_need_the_token_and_probes_do_not(tmp_path: Path):
    tokens = tmp_path / "tokens"
    token = "0123456789abcdef" * 2
    tokens.write_text(f"me:{token}")
    with run_runner(replace(CONFIG, token_file=tokens)) as runner:
        address = str(runner.http_address)
        assert send_infer(address, write_body()).code == 401
        assert request(address, "GET", "/v2/models/reshape").code == 401
        assert request(address, "GET", "/v2/health/ready").code == 200
        headers = {"authorization": f"Bearer {token}"}
        assert request(address, "GET", "/v2/models/reshape", headers=headers).code == 200
