"""The files of the explorer's page, its drawings, and the OpenAPI description."""

import json
import re

import pytest

from http_calls import BATCH_PATH, INFER_PATH, QUESTION, connect, post, request, write_batch, write_request
from http_servers import SlowService, run_http
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.http.applications import DRAWING_PATH, OPENAPI_PATH, read_files
from tensor_reshape.server.http.transcoder import MAX_QUESTION_BYTES
from tensor_reshape.server.telemetry.metrics import CALLS, SharedCounters, list_methods
from tensor_reshape.wire.methods import split_method

FILES = sorted(read_files())


@pytest.mark.parametrize("path", FILES)
def test_file_has_its_type_and_a_policy_without_other_servers(address: str, path: str):
    reply = request(address, "GET", path)
    kinds = {"": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert (reply.code, reply.headers["content-type"]) == (200, kinds[path.rpartition(".")[2].lstrip("/")])
    assert reply.content
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert "unsafe" not in policy


def test_page_loads_only_files_of_the_server(address: str):
    page = request(address, "GET", "/").content.decode()
    linked = {f"/{link.lstrip('/')}" for link in re.findall(r'(?:src|href)="([^"#:]+)"', page)}
    assert linked
    for path in linked:
        assert request(address, "GET", path).code == 200, path


def test_browsers_load_a_file_again_with_each_visit(address: str):
    assert request(address, "GET", "/").headers["cache-control"] == "no-cache"


def test_head_of_the_page_has_its_type(address: str):
    reply = request(address, "HEAD", "/")
    assert (reply.code, reply.content, reply.headers["content-type"]) == (200, b"", "text/html; charset=utf-8")


def test_drawing_is_an_svg(address: str):
    reply = post(address, path=DRAWING_PATH)
    assert (reply.code, reply.headers["content-type"]) == (200, "image/svg+xml")
    assert reply.content.startswith(b"<svg")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")


def test_rejected_query_has_a_drawing_too(address: str):
    wrong = {**QUESTION, "data": {"shape": {"dims": [6]}}, "shape": {"items": [4, -1]}}
    assert post(address, wrong).reason == Reason.NOT_DIVISIBLE
    assert post(address, wrong, DRAWING_PATH).content.startswith(b"<svg")


def test_drawing_of_malformed_json_is_rejected(address: str):
    reply = post(address, {"shape": 1}, DRAWING_PATH)
    assert (reply.code, reply.reason) == (400, Reason.MESSAGE_MALFORMED)


def test_drawing_has_the_size_limit_of_a_query(address: str):
    assert post(address, "a" * MAX_QUESTION_BYTES, DRAWING_PATH).code == 413


def test_drawing_counts_as_a_query():
    counters = SharedCounters(list_methods())
    with run_http(counters=counters) as running:
        post(running.address, path=DRAWING_PATH)
        running.await_free()
    assert counters.cells[CALLS][*split_method(INFER_PATH), "OK"][0] == 1


def test_drawing_does_not_wait_for_a_batch():
    service = SlowService()
    with run_http(service=service) as running, connect(running.address) as busy:
        busy.sendall(write_request(write_batch(1), path=BATCH_PATH))
        service.await_arrival()
        assert post(running.address, path=DRAWING_PATH).code == 200


def test_openapi_description_names_the_paths_of_the_server(address: str):
    reply = request(address, "GET", OPENAPI_PATH)
    assert reply.headers["content-type"] == "application/json"
    for path in json.loads(reply.content)["paths"]:
        if "{" not in path:
            assert request(address, "GET", path).code in {200, 405}, path
