"""The report in Chromium, from a file: filters, links, the keyboard, light and dark."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from browsers import find_faults, find_overflow
from conformance_runs import make_mixed_results
from tensor_reshape.conformance.pages import build_page


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(build_page([make_mixed_results("mine"), make_mixed_results("other")]))
    return path.as_uri()


@pytest.fixture
def page(page: Page, link: str) -> Page:
    """The page of `conftest`, which shows the report."""
    page.goto(link)
    return page


def see(page: Page) -> Locator:
    return page.locator("details:visible")


def test_the_smallest_of_each_kind_are_shown_at_first(page: Page):
    expect(see(page)).to_have_count(10)
    expect(page.get_by_role("status")).to_have_text("10 of 12 are shown.")


def test_filters_narrow_what_is_shown_and_a_link_has_them(page: Page):
    page.get_by_label("Implementation").select_option("other")
    page.locator("select[name=rule]").select_option("inferred")
    page.get_by_label("the smallest of each kind alone").uncheck()
    expect(see(page)).to_have_count(4)
    page.locator("select[name=verdict]").select_option("wrong_shape")
    expect(see(page)).to_have_count(2)
    page.get_by_label("Text").fill("LONGER")
    expect(see(page)).to_have_count(1)
    address = page.url
    page.get_by_role("button", name="Show all").click()
    expect(see(page)).to_have_count(12)
    page.goto("about:blank")
    page.goto(address)
    expect(see(page)).to_have_count(1)
    expect(page.get_by_label("Text")).to_have_value("LONGER")


def test_a_cell_of_the_matrix_leads_to_its_differences(page: Page):
    page.get_by_role("row", name="partial").get_by_role("link").first.click()
    expect(see(page)).to_have_count(1)
    expect(page.locator("select[name=rule]")).to_have_value("partial")


def test_the_keyboard_reaches_all_and_opens_a_difference(page: Page):
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the differences")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(7):  # the filters, then the first difference
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("details[open]").get_by_text("SIGSEGV: <script>alert(1)</script>")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_it_is_for_everybody(page: Page, scheme: str, width: int):
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("summary:visible").first.click()
    assert find_faults(page) == []
    assert find_overflow(page) <= 0


def test_without_scripts_all_is_there(browser: Browser, link: str):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(link)
    expect(see(page)).to_have_count(12)
    expect(page.locator("select[name=rule]")).to_be_hidden()
    context.close()
