"""A page of another origin calls the HTTP port with connect-web."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from http_calls import ANSWER, QUESTION, find_http
from server_processes import run_server
from verification.clients import LackingError, encode_descriptors, find_programs

pytestmark = pytest.mark.timeout(600)  # the first test installs packages


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of a page that has the bundle of connect-web."""
    program = next(program for program in find_programs() if program.name == "connect_web")
    try:
        program.install()
    except LackingError as error:
        pytest.skip(f"connect-web cannot be installed: {error}")
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text('<!doctype html><title>page</title><script src="bundle.js"></script>')
    (folder / "bundle.js").write_text((program.environment / "bundle.js").read_text())
    with serve_folder(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def serve_folder(folder: Path) -> ThreadingHTTPServer:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))


def call(browser: Browser, origin: str, address: str, *, binary: bool, request: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Makes a call in a page of `origin`."""
    given = {
        "baseUrl": f"http://{address}",
        "descriptors": encode_descriptors(),
        "useBinaryFormat": binary,
        "service": "tensor_reshape.v1.ReshapeService",
        "method": "InferShape",
        "request": request,
    }
    page = browser.new_page()
    try:
        page.goto(origin)
        return page.evaluate("(given) => call(given)", given)
    finally:
        page.close()


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "protobuf"])
def test_page_of_an_allowed_origin_calls_with_connect_web(browser: Browser, origin: str, binary: bool):
    with run_server("--http-listen", "127.0.0.1:0", "--http-allow-origin", origin) as server:
        answer = call(browser, origin, find_http(server), binary=binary, request=QUESTION)
        wrong = {**QUESTION, "shape": {"items": ["-2"]}}
        rejected = call(browser, origin, find_http(server), binary=binary, request=wrong)
    assert answer["response"] == {"shape": ANSWER["shape"], "conditions_complete": True}
    assert (rejected["code"], rejected["reason"]) == (3, "INVALID_TARGET_VALUE")


def test_page_of_another_origin_cannot_call_with_connect_web(browser: Browser, origin: str):
    with run_server("--http-listen", "127.0.0.1:0", "--http-allow-origin", "https://other.example") as server:
        answer = call(browser, origin, find_http(server), binary=False, request=QUESTION)
    assert "response" not in answer
