"""The pages of the documentation in Chromium: on a desktop and on a phone, with light and dark colours."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browsers import find_faults, find_overflow
from documents import SITE_PAGES, make_site

REPORTS = [page for page in SITE_PAGES if page.startswith("conformance/reports/")]
CHECKED = [*(page for page in SITE_PAGES if page not in REPORTS[1:]), "404.html", "search.html"]
"""The only tested report, because all reports have the same form."""
PHONE, DESKTOP = 390, 1280


def find_folder(page: str) -> str:
    return str(Path(page).parent)


FOLDERS = sorted(set(map(find_folder, CHECKED)))


@pytest.fixture(scope="module")
def site() -> Path:
    return make_site()


@pytest.fixture(params=[("light", PHONE), ("dark", DESKTOP)], ids=["phone", "desktop"])
def window(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    scheme, width = request.param
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    yield context.new_page()
    context.close()


@pytest.mark.timeout(600)  # axe takes half a second for each page on a quiet machine
@pytest.mark.parametrize("folder", FOLDERS)
def test_axe_finds_no_serious_fault_on_any_documentation_page(window: Page, site: Path, folder: str):
    faults = {}
    for page in (page for page in CHECKED if find_folder(page) == folder):
        window.goto((site / page).as_uri())
        faults[page] = find_faults(window)
        if find_overflow(window) > 0:
            faults[page].append("wider than the window")

    assert {page: found for page, found in faults.items() if found} == {}


def test_command_line_flags_are_not_wrapped_at_hyphens(window: Page, site: Path):
    window.goto((site / "reference/configuration.html").as_uri())
    heights = window.locator(".flag").evaluate_all("flags => flags.map(flag => flag.getClientRects().length)")
    assert heights
    assert set(heights) == {1}


def test_link_to_a_flag_scrolls_to_its_table_row(window: Page, site: Path):
    window.goto((site / "reference/configuration.html").as_uri() + "#max-calls")
    expect(window.locator("#max-calls")).to_be_in_viewport()


def test_phone_shows_all_columns_of_the_error_table(browser: Browser, site: Path):
    page = browser.new_page(viewport={"width": PHONE, "height": 844})
    page.goto((site / "reference/errors.html").as_uri() + "#NOT_DIVISIBLE")
    for cell in page.locator("#NOT_DIVISIBLE td").all():
        box = cell.bounding_box()
        assert box is None or (box["x"] >= 0 and box["x"] + box["width"] <= PHONE)
    expect(page.locator("#NOT_DIVISIBLE")).to_contain_text("not divisible")
    page.close()


def test_sidebar_section_opens_when_enter_is_pressed(browser: Browser, site: Path):
    page = browser.new_page(viewport={"width": DESKTOP, "height": 844})
    page.goto((site / "quick-start.html").as_uri())
    deployment = page.locator(".sidebar-tree").get_by_role("link", name="Run a server")
    expect(deployment).to_be_hidden()
    page.locator("summary", has_text="Deployment").press("Enter")
    expect(deployment).to_be_visible()
    page.close()
