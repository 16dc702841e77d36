from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from browsers import open_browser, run_explorer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    """The URL of a server that has the explorer and needs no token."""
    with run_explorer() as link:
        yield link


@pytest.fixture
def page(browser: Browser, link: str) -> Iterator[Page]:
    """A page whose scripts make no errors, and send requests only to `link`."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: None if request.url.startswith(link) else wrong.append(request.url))
    yield page
    context.close()
    assert wrong == []
