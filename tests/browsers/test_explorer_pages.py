"""The page in Chromium: with a mouse, with only the keyboard, and in light and dark schemes."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from browsers import HOSTILE, QUOTED, find_faults, find_overflow, run_explorer

QUESTION = "?data=N%2C4%2C2..8&shape=0%2C-1&special_zero=true&operation=static_reshape"
REJECTED = "?data=2%2C3%2C4&shape=5%2C-1&special_zero=false&operation=static_reshape"
UNREAD = "?data=2%2Cx+y%2C4&shape=-1&special_zero=false&operation=static_reshape"
LONG = f"?data={'N' * 64}{quote(',N' * 40)}&shape=-1&special_zero=true&operation=reshape"
COMPARED = "?data=4%2C0%2C2&shape=-1%2C0&special_zero=true&operation=reshape&compare=onnx_reshape"
PARTIAL = "?data=N%2C3%2C4&shape=0%2C-1&special_zero=true&operation=reshape&expected=8%2C%3F"


def visit(page: Page, link: str, query: str) -> None:
    """Opens a query, and waits for the response of the server."""
    page.goto(link + query)
    expect(page.locator("#result")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#first-summary")).to_contain_text("e")


def see_shape(page: Page, text: str) -> None:
    expect(page.locator("#first-summary .shape")).to_have_text(text)


def is_mark_within(field: Locator, start: str, length: str) -> bool:
    """Whether the underline begins within a field, horizontally or vertically."""
    rectangle = "element => element.getBoundingClientRect().toJSON()"
    mark, box = (each.evaluate(rectangle) for each in (field.page.locator("mark"), field))
    return bool(box[start] < mark[start] < box[start] + box[length])


def test_explorer_link_shows_its_query_and_result(page: Page, link: str):
    visit(page, link, PARTIAL)
    expect(page.get_by_label("Input shape")).to_have_value("N,3,4")
    expect(page.get_by_label("Operation", exact=True)).to_have_value("reshape")
    expect(page.get_by_label("Expected output shape")).to_have_value("8,?")
    expect(page.get_by_role("radio", name="copies the input dimension")).to_be_checked()
    see_shape(page, "[8, 12]")
    expect(page.locator(".drawing svg")).to_be_visible()


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
    expect(page.locator("#first-summary")).to_contain_text("MINUS_ONE_WITH_ZERO_VOLUME")
    page.get_by_label("Input shape").fill("3,2,0")
    page.get_by_role("radio", name="copies the input dimension").click()
    page.get_by_label("Requested shape").fill("-1,0,0")
    expect(page.locator("#first-summary")).to_contain_text("MINUS_ONE_WITH_ZERO_VOLUME")
    page.get_by_label("Operation", exact=True).select_option("reshape")
    see_shape(page, "[3, 2, 0]")


def test_explorer_shows_an_error_at_its_item_with_a_hint(page: Page, link: str):
    visit(page, link, REJECTED)
    target = page.get_by_label("Requested shape")
    expect(page.locator("mark")).to_have_text("-1")
    expect(target).to_have_attribute("aria-invalid", "true")
    expect(target).to_have_attribute("aria-describedby", "target-hint first-summary")
    expect(page.locator("#first-summary")).to_contain_text("the nearest are 4 and 6")
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
    order = ["skip", "data", "shape", "special_zero", "operation", "compare", "expected", "copy-link", "drawing"]
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
        if '"dims":[7]' in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/BatchInferShape", hold)
    with page.expect_request(lambda request: '"dims":[7]' in (request.post_data or "")):
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
    expect(page.locator("#first-summary")).to_contain_text("onerror")
    assert page.locator("main script, main img, main iframe").count() == 0


def test_explorer_page_accepts_any_text(page: Page, link: str):
    visit(page, link, QUESTION)
    for text in HOSTILE:
        visit(page, link, f"?data={quote(text)}&shape=%3F&special_zero=true")
        expect(page.locator("#first-summary")).to_contain_text("Rejected" if text != QUOTED else "Output")
        assert find_overflow(page) == 0
    assert page.locator("main script, main img, main iframe").count() == 0


def test_explorer_waits_for_the_rest_of_a_focused_text(page: Page, link: str):
    visit(page, link, "?data=2%2C3&shape=3%2C2&special_zero=true")
    target, waiting = page.get_by_label("Requested shape"), page.locator("#waiting")
    for text in ("3,", "2*", "N:", "[3,2", "-", "'my", "3x", ""):
        target.fill(text)
        expect(waiting).to_have_text("waiting for the rest of the requested shape")
        see_shape(page, "[3, 2]")
        expect(page.locator("mark")).to_have_count(0)
        target.fill("3,2")
        expect(waiting).to_be_empty()
    target.fill("3,N:1..")
    see_shape(page, "[3, 2]")
    expect(waiting).to_be_empty()
    target.fill("3,2,")
    expect(waiting).not_to_be_empty()
    target.press("Enter")
    expect(page.locator("#first-summary")).to_contain_text("DIM_SYNTAX_INVALID")
    target.fill("3,")
    expect(waiting).not_to_be_empty()
    expect(page.locator("#first-summary")).not_to_be_visible()  # it has a rejection of an older text
    target.press("Tab")
    expect(page.locator("#first-summary")).to_contain_text("shape[1]")
    expect(waiting).to_be_empty()


@pytest.mark.parametrize(("width", "is_beside"), [(1280, True), (390, False)])
def test_two_operations_are_compared_side_by_side(page: Page, link: str, width: int, is_beside: bool):
    page.set_viewport_size({"width": width, "height": 900})
    visit(page, link, COMPARED)
    see_shape(page, "[8, 0]")
    expect(page.locator("#second-summary")).to_contain_text("MINUS_ONE_WITH_ZERO_VOLUME")
    expect(page.locator(".outcome .operation")).to_have_text(["Reshape-1 (OpenVINO)", "Reshape (ONNX)"])
    expect(page.locator("mark")).to_have_text("-1")
    expect(page.get_by_label("Requested shape")).to_have_attribute("aria-describedby", "target-hint second-summary")
    first, second = (place.bounding_box() for place in page.locator(".outcome").all())
    assert first is not None
    assert second is not None
    assert (first["y"] == second["y"], first["x"] == second["x"]) == (is_beside, not is_beside)


def test_compared_operation_is_a_part_of_the_address(page: Page, link: str):
    visit(page, link, QUESTION)
    page.get_by_label("Compare with").select_option("onnx_reshape")
    expect(page.locator("#second-summary .shape")).to_have_text("[N, 8..32]")
    expect(page).to_have_url(link + QUESTION + "&compare=onnx_reshape")
    page.get_by_label("Compare with").select_option("")
    expect(page.locator("#second-summary")).to_be_hidden()
    expect(page).to_have_url(link + QUESTION)


def test_elements_of_small_shapes_are_shown_in_rows(page: Page, link: str):
    visit(page, link, "?data=2%2C3%2C2&shape=3%2C4&special_zero=true")
    rows = page.locator("table").evaluate_all(
        "tables => tables.map(table => [...table.rows].map(row => row.innerText))"
    )
    assert [[row.split("\t") for row in table] for table in rows] == [
        [
            *(["[0, 0]", "0", "1"], ["[0, 1]", "2", "3"], ["[0, 2]", "4", "5"]),
            *(["[1, 0]", "6", "7"], ["[1, 1]", "8", "9"], ["[1, 2]", "10", "11"]),
        ],
        [["[0]", "0", "1", "2", "3"], ["[1]", "4", "5", "6", "7"], ["[2]", "8", "9", "10", "11"]],
    ]
    for query in (
        "?data=5%2C5&shape=-1&special_zero=true",
        "?data=0&shape=0%2C2&special_zero=true",
        QUESTION,
        REJECTED,
    ):
        visit(page, link, query)
        expect(page.locator("table")).to_have_count(0)
    visit(page, link, "?data=&shape=1&special_zero=true")
    expect(page.locator("td")).to_have_text(["0", "0"])


def test_explorer_asks_for_a_token_and_sends_it(browser: Browser, link: str):
    page = browser.new_page()  # Chromium reports the status 401 on its console

    def demand_token(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, json={"code": 16, "message": "the call has no token"})

    page.route(re.compile("/BatchInferShape$|/explore/drawing$"), demand_token)
    visit(page, link, QUESTION)
    expect(page.locator("#first-summary")).to_have_text("No result: the call has no token")
    page.get_by_label("Token").fill("secret")
    see_shape(page, "[N, 8..32]")
    expect(page.locator(".drawing svg")).to_be_visible()
    assert "secret" not in page.url
    page.close()


def test_busy_server_is_not_a_rejection_of_the_query(browser: Browser, link: str):
    page = browser.new_page()
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVER_BUSY"}
    status = {"code": 8, "message": "the server is busy", "details": [info, {"@type": "x/google.rpc.RetryInfo"}]}
    page.route("**/BatchInferShape", lambda route: route.fulfill(status=429, json=status, headers={"Retry-After": "3"}))
    visit(page, link, QUESTION)
    expect(page.locator("#first-summary")).to_have_text("No result: the server is busy (try again in 3 s)")
    expect(page.locator("#code")).to_be_hidden()
    page.close()


def test_explorer_examples_are_rejected_only_if_their_label_says_so(page: Page, link: str):
    visit(page, link, "")
    labels = page.locator("#examples a").all_inner_texts()
    assert labels
    for label in labels:
        page.get_by_role("link", name=label).click()
        expect(page.locator("#result")).not_to_have_attribute("aria-busy", "true")
        expect(page.locator(".rejected:visible")).to_have_count(1 if "reject" in label.lower() else 0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1600)])
def test_axe_finds_no_accessibility_faults_on_the_explorer_page(browser: Browser, link: str, scheme: str, width: int):
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "bypass_csp": True}
    context = browser.new_context(**options)  # type: ignore[arg-type] # axe-core needs it, because it is evaluated as JavaScript
    page = context.new_page()
    for query in (REJECTED, PARTIAL, COMPARED, "?data=2%2C3%2C4&shape=0%2C-1&special_zero=true"):
        visit(page, link, query)
        assert find_faults(page) == []
    context.close()


@pytest.mark.parametrize("query", [QUESTION, REJECTED])
def test_explorer_result_is_on_the_first_screen_of_a_phone(page: Page, link: str, query: str):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, link, query)
    expect(page.locator("#first-summary")).to_be_in_viewport(ratio=1)
    expect(page.locator(".drawing svg")).to_be_in_viewport(ratio=0.5)


def test_phone_layout_shows_only_options_that_the_query_uses(page: Page, link: str):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, link, QUESTION)
    expect(page.get_by_label("Expected output shape")).to_be_hidden()
    visit(page, link, PARTIAL)
    expect(page.get_by_label("Expected output shape")).to_be_visible()


@pytest.mark.parametrize("query", [REJECTED, UNREAD, PARTIAL, LONG, COMPARED])
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
    expect(page.locator("#first-summary")).to_have_text("No result: the server cannot be reached.")
    expect(page.locator("#first-summary + .parts .drawing")).to_be_hidden()
    page.close()
