"""The gateway of a server serves its methods with its limits."""

from dataclasses import replace
from pathlib import Path

from http_calls import post, request
from in_process import ANY_PORT, run_runner
from json_bodies import ANSWER
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.descriptions import OPENAPI_PATH
from tensor_reshape.server.runner import Runner

CONFIG = Config(listen=(ANY_PORT,), http_listen=ANY_PORT, drain_seconds=0, shutdown_grace_seconds=0)


def find_address(runner: Runner) -> str:
    assert runner.http_address is not None
    return runner.http_address


def test_http_host_header_is_checked_only_on_local_addresses():
    with run_runner(CONFIG) as runner:
        assert post(find_address(runner), headers={"host": "evil.example"}).code == 421
        assert post(find_address(runner), headers={"host": "localhost:1"}).document == ANSWER
    with run_runner(replace(CONFIG, http_listen="0.0.0.0:0")) as runner:
        address = find_address(runner).replace("0.0.0.0", "127.0.0.1")
        assert post(address, headers={"host": "shapes.example"}).document == ANSWER


def test_http_gateway_answers_explorer_queries():
    with run_runner(CONFIG) as runner:
        assert request(find_address(runner), "GET", "/explore/answer?data=N,4&shape=-1&special_zero=true").code == 200


def test_openapi_document_is_served_only_with_reflection_and_without_tokens(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text("me:" + "0123456789abcdef" * 2)
    for config, code in (
        (CONFIG, 200),
        (replace(CONFIG, reflection=False), 404),
        (replace(CONFIG, token_file=tokens, reflection=True), 404),
    ):
        with run_runner(config) as runner:
            assert request(find_address(runner), "GET", OPENAPI_PATH).code == code, config
            assert request(find_address(runner), "HEAD", "/").headers["content-type"].startswith("text/html")
