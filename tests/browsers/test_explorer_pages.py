"""The page in Chromium: with a mouse, with only the keyboard, and in light and dark schemes."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from browsers import find_faults, find_overflow, run_explorer
from explorations import HOSTILE, QUOTED

QUESTION = "?data=N%2C4%2C2..8&shape=0%2C-1&special_zero=true&operation=static_reshape"
REJECTED = "?data=2%2C3%2C4&shape=5%2C-1&special_zero=false&operation=static_reshape"
UNREAD = "?data=2%2Cx+y%2C4&shape=-1&special_zero=false&operation=static_reshape"
LONG = f"?data={'N' * 64}{quote(',N' * 40)}&shape=-1&special_zero=true&operation=reshape"
PARTIAL = "?data=N%2C3%2C4&shape=0%2C-1&special_zero=true&operation=reshape&expected=8%2C%3F"


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    with run_explorer() as link:
        yield link


def visit(page: Page, link: str, query: str) -> None:
    """Opens a query, and waits for the response of the server."""
    page.goto(link + query)
    expect(page.locator("#result")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#summary")).to_contain_text("e")


def see_shape(page: Page, text: str) -> None:
    expect(page.locator("#summary .shape")).to_have_text(text)


def is_mark_within(field: Locator, start: str, length: str) -> bool:
    """Whether the underline begins within a field, horizontally or vertically."""
    rectangle = "element => element.getBoundingClientRect().toJSON()"
    mark, box = (each.evaluate(rectangle) for each in (field.page.locator("mark"), field))
    return bool(box[start] < mark[start] < box[start] + box[length])


def test_explorer_link_shows_its_query_and_result(page: Page, link: str):
    visit(page, link, PARTIAL)
    expect(page.get_by_label("Input shape")).to_have_value("N,3,4")
    expect(page.get_by_label("Operation")).to_have_value("reshape")
    expect(page.get_by_label("Expected output")).to_have_value("8,?")
    expect(page.get_by_role("radio", name="copies the input dimension")).to_be_checked()
    see_shape(page, "[8, 12]")
    expect(page.locator("#drawing svg")).to_be_visible()


def test_explorer_page_without_a_query_shows_the_first_example(page: Page, link: str):
    visit(page, link, "")
    see_shape(page, "[32, 64]")


def test_each_input_change_updates_the_explorer_result(page: Page, link: str):
    visit(page, link, QUESTION)
    page.get_by_label("Input shape").fill("2,3,4")
    see_shape(page, "[2, 12]")
    page.get_by_label("Requested shape").fill("4,-1")
    see_shape(page, "[4, 6]")
    page.get_by_label("Requested shape").fill("0,-1,3")
    page.get_by_role("radio", name="is a dimension of size 0").click()
    expect(page.locator("#summary")).to_contain_text("MINUS_ONE_WITH_ZERO_VOLUME")
    page.get_by_label("Input shape").fill("3,2,0")
    page.get_by_role("radio", name="copies the input dimension").click()
    page.get_by_label("Requested shape").fill("-1,0,0")
    expect(page.locator("#summary")).to_contain_text("MINUS_ONE_WITH_ZERO_VOLUME")
    page.get_by_label("Operation").select_option("reshape")
    see_shape(page, "[3, 2, 0]")


def test_explorer_shows_an_error_at_its_item_with_a_hint(page: Page, link: str):
    visit(page, link, REJECTED)
    target = page.get_by_label("Requested shape")
    expect(page.locator("mark")).to_have_text("-1")
    expect(target).to_have_attribute("aria-invalid", "true")
    expect(target).to_have_attribute("aria-describedby", "target-hint summary")
    expect(page.locator("#summary")).to_contain_text("the nearest are 4 and 6")
    expect(page.locator("#question")).not_to_contain_text("divisible")  # the message is shown only once
    assert is_mark_within(target, "y", "height")
    target.fill("6,-1")
    see_shape(page, "[6, 4]")
    expect(target).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("mark")).to_have_count(0)


def test_error_underline_follows_a_scrolled_input_field(page: Page, link: str):
    visit(page, link, f"?data={quote(','.join(['1000'] * 30))}%2Cx+y&shape=-1&special_zero=true")
    data = page.get_by_label("Input shape")
    data.focus()
    page.keyboard.press("End")
    expect(page.locator("mark")).to_have_text("x y")
    assert is_mark_within(data, "x", "width")


def test_browser_back_and_forward_change_the_explorer_query(page: Page, link: str):
    visit(page, link, QUESTION)
    page.get_by_role("link", name="Names become a product").click()
    see_shape(page, "[N, C*H*W]")
    expect(page.locator("#result")).to_be_focused()
    page.get_by_label("Input shape").press("End")
    page.get_by_label("Input shape").press_sequentially(",2")
    see_shape(page, "[N, 2*C*H*W]")
    page.go_back()
    see_shape(page, "[N, C*H*W]")
    expect(page.get_by_label("Input shape")).to_have_value("N,C,H,W")
    page.go_back()
    see_shape(page, "[N, 8..32]")
    page.go_forward()
    see_shape(page, "[N, C*H*W]")


def test_explorer_link_and_code_can_be_copied(page: Page, link: str):
    visit(page, link, QUESTION)
    page.get_by_role("button", name="Copy a link").click()
    expect(page.locator("#announcement")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == link + QUESTION
    page.get_by_role("button", name="Copy: Command line").click()
    expect(page.get_by_text("Copied", exact=True).last).to_be_visible()
    copied = "tensor-reshape infer --data N,4,2..8 --shape 0,-1 --special-zero --explain --local\n"
    assert page.evaluate("navigator.clipboard.readText()") == copied


def test_explorer_page_works_with_the_keyboard_only(page: Page, link: str):
    visit(page, link, QUESTION)
    order = ["skip", "data", "shape", "special_zero", "operation", "expected", "copy-link", "drawing"]
    for name in order:
        page.keyboard.press("Tab")
        at = page.evaluate("(({id, name, className}) => id || name || className)(document.activeElement)")
        assert at == name
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        if name == "shape":
            page.keyboard.type("-1")
        if name == "special_zero":
            page.keyboard.press("ArrowDown")
    see_shape(page, "[?]")
    expect(page.get_by_role("radio", name="is a dimension of size 0")).to_be_checked()
    expect(page.get_by_label("Requested shape")).to_have_value("-1")


def test_explorer_ignores_late_responses_to_earlier_queries(page: Page, link: str):
    visit(page, link, QUESTION)
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "data=7" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/explore/answer*", hold)
    with page.expect_request("**/explore/answer?data=7&*"):
        page.get_by_label("Input shape").fill("7")
    page.get_by_label("Input shape").fill("9")
    page.get_by_label("Requested shape").fill("3,3")
    see_shape(page, "[3, 3]")
    for route in held:
        route.abort()
    see_shape(page, "[3, 3]")


def test_html_in_an_explorer_link_is_shown_as_text(page: Page, link: str):
    query = "&".join(f"{name}={quote(HOSTILE[0] + HOSTILE[1])}" for name in ("data", "shape", "expected", "operation"))
    visit(page, link, f"?{query}&special_zero=true")
    expect(page.locator("#summary")).to_contain_text("onerror")
    assert page.locator("main script, main img, main iframe").count() == 0


def test_explorer_page_accepts_any_text(page: Page, link: str):
    visit(page, link, QUESTION)
    page.get_by_label("Requested shape").fill("?")
    for text in HOSTILE:
        with page.expect_event("requestfinished", lambda request: "/explore/answer?" in request.url):
            page.get_by_label("Input shape").fill(text)
        expect(page.locator("#result")).not_to_have_attribute("aria-busy", "true")
        expect(page.locator("#summary")).to_contain_text("Rejected" if text != QUOTED else "Output")
        assert find_overflow(page) == 0
    assert page.locator("main script, main img, main iframe").count() == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1600)])
def test_axe_finds_no_accessibility_faults_on_the_explorer_page(browser: Browser, link: str, scheme: str, width: int):
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "bypass_csp": True}
    context = browser.new_context(**options)  # type: ignore[arg-type] # axe-core needs it, because it is evaluated as JavaScript
    page = context.new_page()
    for query in (REJECTED, PARTIAL):
        visit(page, link, query)
        assert find_faults(page) == []
    context.close()


@pytest.mark.parametrize("query", [QUESTION, REJECTED])
def test_explorer_result_is_on_the_first_screen_of_a_phone(page: Page, link: str, query: str):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, link, query)
    expect(page.locator("#summary")).to_be_in_viewport(ratio=1)
    expect(page.locator("#drawing svg")).to_be_in_viewport(ratio=0.5)


def test_phone_layout_shows_only_options_that_the_query_uses(page: Page, link: str):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, link, QUESTION)
    expect(page.get_by_label("Expected output")).to_be_hidden()
    visit(page, link, PARTIAL)
    expect(page.get_by_label("Expected output")).to_be_visible()


@pytest.mark.parametrize("query", [REJECTED, UNREAD, PARTIAL, LONG])
def test_explorer_page_is_never_wider_than_its_window(page: Page, link: str, query: str):
    visit(page, link, query)
    for width in (320, 390, 800, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert find_overflow(page) == 0


def test_explorer_page_reports_an_unreachable_server(browser: Browser):
    page = browser.new_page()
    with run_explorer() as link:
        visit(page, link, QUESTION)
    page.get_by_label("Input shape").fill("2,3,4")
    expect(page.locator("#summary")).to_have_text("No result: the server cannot be reached.")
    expect(page.locator("#drawing")).to_be_hidden()
    page.close()
