"""The gateway of a server serves its methods with its limits."""

from dataclasses import replace
from pathlib import Path

from http_calls import post, request
from in_process import ANY_PORT, run_runner
from json_bodies import ANSWER, BATCH_PATH, QUESTION
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.descriptions import OPENAPI_PATH, describe
from tensor_reshape.server.runner import Runner

CONFIG = Config(listen=(ANY_PORT,), http_listen=ANY_PORT, drain_seconds=0, grace_seconds=0)
ONES = {"dims": [{"value": 1}] * 8}


def find_address(runner: Runner) -> str:
    assert runner.http_address is not None
    return runner.http_address


def test_limits_are_those_of_the_server():
    question = {**QUESTION, "data": {"shape": ONES}, "shape": ONES}
    with run_runner(replace(CONFIG, max_rank=7)) as runner:
        reply = post(find_address(runner), question)
        assert (reply.code, reply.reason) == (429, Reason.RANK_LIMIT_EXCEEDED)
        assert "retry-after" not in reply.headers
        (result,) = post(find_address(runner), {"items": [{"question": question}]}, BATCH_PATH).document["results"]
        assert result["refusal"]["limitExceeded"]


def test_host_names_are_checked_on_a_local_address_only():
    with run_runner(CONFIG) as runner:
        assert post(find_address(runner), headers={"host": "evil.example"}).code == 421
        assert post(find_address(runner), headers={"host": "localhost:1"}).document == ANSWER
    with run_runner(replace(CONFIG, http_listen="0.0.0.0:0")) as runner:
        address = find_address(runner).replace("0.0.0.0", "127.0.0.1")
        assert post(address, headers={"host": "shapes.example"}).document == ANSWER


def test_contract_is_served_if_reflection_is_on():
    with run_runner(CONFIG) as runner:
        reply = request(find_address(runner), "GET", OPENAPI_PATH)
        assert (reply.code, int(reply.headers["content-length"])) == (200, len(describe()))
        assert request(find_address(runner), "GET", "/explore/answer?data=N,4&shape=-1&special_zero=true").code == 200
        assert request(find_address(runner), "HEAD", "/").headers["content-type"].startswith("text/html")
    with run_runner(replace(CONFIG, reflection=False)) as runner:
        assert request(find_address(runner), "GET", OPENAPI_PATH).code == 404


def test_contract_is_not_served_if_callers_need_tokens(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text("me:" + "0123456789abcdef" * 2)
    with run_runner(replace(CONFIG, token_file=tokens, reflection=True)) as runner:
        assert request(find_address(runner), "GET", OPENAPI_PATH).code == 404
        assert request(find_address(runner), "GET", "/healthz").code == 200
