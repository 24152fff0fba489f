"""Pages in a real browser: each is drawn without a complaint, and a trade is followed to the lines that were cited."""

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from tapebook.surfaces.web.frame import NAVIGATION
from tests.sources.polymarket.hostile_market import HIDDEN, ORDER, RUNS
from tests.surfaces.web.conftest import Watched

Theme = Literal["light", "dark"]


@pytest.mark.parametrize("path", [path for _, path, _ in NAVIGATION])
def test_every_page_is_drawn(watched: Watched, path: str) -> None:
    page = watched.open(path)
    assert page.locator(f'.tb-nav a.tb-item[href="{path}"]').get_attribute("aria-current") == "page"
    assert page.locator("h1").count() == 1
    assert page.locator(".tb-alert.bad").count() == 0


def test_a_trade_leads_to_its_decision_and_to_the_lines_that_were_cited(watched: Watched) -> None:
    page = watched.open("/agents/btc-5m")
    page.wait_for_selector(".ag-row [col-id=symbol]")
    page.locator(".ag-row [col-id=symbol]").first.click()
    page.wait_for_url(re.compile("/decisions/"))
    page.wait_for_selector("text=Actions and verdicts")
    page.locator(".tb-more a[href^='/documents']").first.click()
    page.wait_for_url(re.compile("/documents"))
    page.wait_for_selector(".tb-hit")
    first = int(re.search(r"first=(\d+)", page.url)[1])  # type: ignore[index]
    assert page.locator(".tb-hit").first.get_attribute("id") == f"line-{first}"
    assert page.locator(".tb-hit").first.is_visible()


def test_a_replay_shows_that_the_bytes_are_equal_and_the_slider_another_moment(watched: Watched) -> None:
    page = watched.open("/decisions")
    page.locator('.tb-table a[href^="/decisions/"]').first.click()
    page.wait_for_selector("text=Replay this decision")
    page.get_by_text("Replay this decision").click()
    page.wait_for_selector("text=equal, byte for byte")
    slider = page.get_by_role("slider")
    slider.focus()
    for _ in range(3):
        slider.press("ArrowLeft")
    page.wait_for_selector("text=what it would have seen then")


def test_a_proposal_is_approved(watched: Watched) -> None:
    page = watched.open("/recall")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert "approved" in page.locator(".tb-badge.good").all_inner_texts()


def test_what_others_wrote_stays_text(watched: Watched) -> None:
    for path in ("/agents/btc-5m", "/recall?q=trend", "/decisions", "/documents?path=docs/hostile.md", "/agents"):
        page = watched.open(path)
        assert page.locator("img[src*=elsewhere]").count() == 0
        assert page.title().endswith("· Tapebook")
    assert "default-src 'self'" in (page.request.get(watched.base).headers["content-security-policy"])


def test_a_title_of_a_prediction_market_that_gives_orders_stays_text(watched: Watched) -> None:
    page = watched.open("/market?symbol=BTC")
    row = page.get_by_role("row").filter(has_text=ORDER)
    expect(row).to_have_count(1)
    assert f"{ORDER} {RUNS}" in row.inner_text() and not [mark for mark in HIDDEN if mark in page.content()]
    assert page.locator("img[src=x]").count() == 0 and row.locator("img, a").count() == 0
    assert page.title() == "Market · Tapebook"


def test_keys_lead_to_pages_and_the_theme_is_kept(watched: Watched) -> None:
    page = watched.open("/")
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url(re.compile("/decisions$"))
    page.wait_for_selector(".tb-table")
    was_dark = page.locator("body.body--dark").count()
    page.keyboard.press("t")
    page.wait_for_selector("body:not(.body--dark)" if was_dark else "body.body--dark")
    watched.open("/agents")
    assert page.locator("body.body--dark").count() == 1 - was_dark


def test_nothing_is_wider_than_a_phone(watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/", "/agents/btc-5m", "/recall"):
        page = watched.open(path)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_readers_of_the_screen_find_no_serious_fault(watched: Watched) -> None:
    assert serious_faults(watched, ["/", "/recall?q=trend"], theme="dark") == []


@pytest.mark.soak
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_readers_of_the_screen_find_no_serious_fault_on_any_page(watched: Watched, theme: Theme) -> None:
    paths = [path for _, path, _ in NAVIGATION]
    assert serious_faults(watched, [*paths, "/agents/btc-5m", "/recall?q=trend"], theme=theme) == []


def serious_faults(watched: Watched, paths: list[str], *, theme: Theme) -> list[str]:
    """What axe-core finds on pages that somebody could not use."""
    rules = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    script = (Path(rules.__file__).parent / "axe.min.js").read_text("utf-8")
    watched.page.emulate_media(color_scheme=theme)
    found = []
    for path in paths:
        page = watched.open(path)
        page.evaluate(script)
        faults = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        serious = [each for each in faults if each["impact"] in ("serious", "critical")]
        found += [f"{path}: {each['id']} {each['nodes'][0]['html'][:120]}" for each in serious]
    return found
