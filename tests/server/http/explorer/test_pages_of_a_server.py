"""The page on a server's port for HTTP: what the server asks of every call, it asks of the page's."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from browsers import open_browser
from http_calls import find_http
from server_processes import ServerProcess, run_server

ANY = "127.0.0.1:0"
TOKEN = "explorer-" * 8
QUESTION = "?data=2%2C3&shape=-1&special_zero=true"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks who calls, and logs each call."""
    tokens: Path = tmp_path_factory.mktemp("explorer") / "tokens"
    tokens.write_text(f"ali:{TOKEN}\n")
    with run_server("--http-listen", ANY, "--token-file", str(tokens), "--access-log", "1") as server:
        yield server


def test_an_answer_is_a_call_of_infer_shape():
    with run_server("--http-listen", ANY, "--access-log", "1", "--max-rank", "3") as server:
        link = f"http://{find_http(server)}/explore/answer"
        with urlopen(f"{link}{QUESTION}") as answer:
            record = json.load(answer)
            assert record["answer"]["text"] == "[6]"
            assert f'Client("{server.address}")' in record["snippets"][0]["text"]  # with its real port
            identity = answer.headers["x-request-id"]
        (line,) = server.await_records(1, "call", request_id=identity)
        assert line["method"] == "/tensor_reshape.v1.ReshapeService/InferShape"
        with urlopen(f"{link}?data=1,1,1,1&shape=-1&special_zero=true&operation=reshape") as answer:
            assert json.load(answer)["refusal"]["reason"] == "RANK_LIMIT_EXCEEDED"  # of this server


def test_a_page_asks_for_a_token_where_the_server_does(guarded: ServerProcess):
    with open_browser() as browser:
        page = browser.new_page()
        page.goto(f"http://{find_http(guarded)}/{QUESTION}")
        expect(page.locator("#summary")).to_have_text("No answer: the call shows no token that this server takes")
        for token in ("nobody-" * 8, "größe" * 9):
            page.get_by_label("Token").fill(token)
            expect(page.locator("#summary")).to_contain_text("no token that this server takes")
        page.get_by_label("Token").fill(TOKEN)
        expect(page.locator("#summary .shape")).to_have_text("[6]")
        assert TOKEN not in page.url
        (line, *_) = guarded.await_records(1, "call", identity="token:ali")
        assert line["code"] == "OK"
