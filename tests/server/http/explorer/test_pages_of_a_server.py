"""The explorer on a server's HTTP port. Its queries are calls like all others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import expect

from browsers import open_browser
from http_calls import find_http
from server_processes import ServerProcess, run_server

TOKEN = "explorer-" * 8
QUESTION = "?data=2%2C3&shape=-1&special_zero=true"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that requires a token, and logs each call."""
    tokens: Path = tmp_path_factory.mktemp("explorer") / "tokens"
    tokens.write_text(f"ali:{TOKEN}\n")
    flags = ("--http-listen", "127.0.0.1:0", "--token-file", str(tokens), "--access-log", "1")
    with run_server(*flags) as server:
        yield server


def test_explorer_query_is_logged_as_an_infer_shape_call(server: ServerProcess):
    link = f"http://{find_http(server)}/explore/answer"

    def ask(query: str) -> tuple[dict[str, Any], str]:
        with urlopen(Request(link + query, headers={"Authorization": f"Bearer {TOKEN}"})) as answer:
            return json.load(answer), answer.headers["x-request-id"]

    record, identity = ask(QUESTION)
    assert record["answer"]["text"] == "[6]"
    assert f'Client("{server.address}")' in record["snippets"][0]["text"]  # with its real port
    (line,) = server.await_records(1, "call", request_id=identity)
    assert (line["method"], line["identity"]) == ("/tensor_reshape.v1.ReshapeService/InferShape", "token:ali")

    with pytest.raises(HTTPError, match="401") as caught:
        urlopen(link + QUESTION)
    caught.value.close()


@pytest.mark.machine
def test_explorer_page_requests_a_token_if_the_server_requires_one(server: ServerProcess):
    with open_browser() as browser:
        page = browser.new_page()
        page.goto(f"http://{find_http(server)}/{QUESTION}")
        expect(page.locator("#summary")).to_have_text("No result: the call has no valid token")
        for token in ("nobody-" * 8, "größe" * 9):
            with page.expect_response("**/explore/answer*") as sent:
                page.get_by_label("Token").fill(token)
            assert sent.value.status == 401
            expect(page.locator("#summary")).to_have_text("No result: the call has no valid token")
        page.get_by_label("Token").fill(TOKEN)
        expect(page.locator("#summary .shape")).to_have_text("[6]")
        assert TOKEN not in page.url
