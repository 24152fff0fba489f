"""Pages in a real browser: each is drawn without a complaint, and a trade is followed to the lines that were cited."""

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from tapebook.api import app
from tapebook.surfaces.web.frame import NAVIGATION
from tests.sources.polymarket.hostile_market import HIDDEN, ORDER, RUNS
from tests.surfaces.web.conftest import BACKTEST_START, Watched

Theme = Literal["light", "dark"]
# The place of the first entry on an agent's chart, in pixels of its box.
FIRST_ENTRY = """() => {
  const box = document.querySelector('.tb-chart'), chart = getElement(Number(box.id.slice(1))).chart;
  const series = chart.getOption().series, place = series.findIndex(each => each.name.startsWith('entry'));
  return chart.convertToPixel({ seriesIndex: place }, series[place].data[0].value);
}"""


OTHER_PAGES = ["/agents/mix-5m", "/experience?agent=btc-5m", "/horizons?agent=btc-5m", "/recall?q=trend"]


def test_every_page_is_drawn(watched: Watched) -> None:
    for path in [path for _, path, _ in NAVIGATION] + OTHER_PAGES:
        page = watched.open(path)
        assert page.locator("h1").count() == 1, path
        assert page.locator(".tb-alert.bad").count() == 0, path
        current = page.locator(".tb-nav a.tb-item[aria-current=page]")
        assert path.startswith(current.get_attribute("href") or "nowhere"), path


@pytest.mark.parametrize("path", ["/lessons", "/experience", "/horizons"])
def test_without_a_choice_the_agent_is_shown_that_traded_most(watched: Watched, path: str) -> None:
    agents = watched.open("/agents").get_by_role("table", name="Agents").locator("tbody tr")
    trades = {row.locator("td").nth(0).inner_text(): row.locator("td").nth(7).inner_text() for row in agents.all()}
    counts = {name: int(count) if count.isdigit() else 0 for name, count in trades.items()}
    page = watched.open(path)
    chosen = page.get_by_role("navigation", name="Agent", exact=True).locator("[aria-current=true]").inner_text()
    assert counts[chosen] == max(counts.values()) > 0


@pytest.mark.parametrize(
    ("width", "path"),
    [
        *((1280, path) for path in ("/experience", "/horizons", "/market", "/agents")),
        *((390, path) for path in ("/", "/agents", "/backtests", "/market")),
    ],
)
def test_on_a_laptop_and_a_phone_no_table_is_wider_than_the_sheet_it_stands_in(
    watched: Watched, width: int, path: str
) -> None:
    watched.page.set_viewport_size({"width": width, "height": 860})
    tables = watched.open(path).locator(".tb-sheet table.tb-table")
    expect(tables.first).to_be_visible()
    too_wide = "found => found.filter(each => each.offsetWidth > each.parentElement.clientWidth + 1).length"
    assert tables.evaluate_all(too_wide) == 0


def test_a_mark_of_the_chart_leads_to_its_decision_and_to_the_lines_that_were_cited(watched: Watched) -> None:
    page = watched.open("/agents/btc-5m")
    page.wait_for_selector(".tb-chart canvas")
    # Where the first entry is drawn, as the chart itself reckons it.
    x, y = page.evaluate(FIRST_ENTRY)
    page.locator(".tb-chart").first.click(position={"x": x, "y": y})
    page.wait_for_url(re.compile("/decisions/"))
    watched.drawn()
    page.wait_for_selector("text=Actions and verdicts")
    page.locator(".tb-more a[href^='/documents']").first.click()
    page.wait_for_url(re.compile("/documents"))
    page.wait_for_selector(".tb-hit")
    first = int(re.search(r"first=(\d+)", page.url)[1])  # type: ignore[index]
    assert page.locator(".tb-hit").first.get_attribute("id") == f"line-{first}"
    assert page.locator(".tb-hit").first.is_visible()


def test_a_row_of_the_trades_opens_its_decision(watched: Watched) -> None:
    page = watched.open("/agents/btc-5m")
    # A row whose trade has not come yet opens nothing; nor does one that is drawn anew while the page settles.
    page.wait_for_selector(".tb-chart canvas")
    page.locator(".ag-row [col-id=symbol]").filter(has_text=re.compile("[A-Z]")).first.click()
    page.wait_for_url(re.compile("/decisions/"))
    watched.drawn()


def test_horizons_lead_from_a_year_to_a_day_its_trades_and_their_decisions(watched: Watched) -> None:
    page = watched.open("/horizons?agent=btc-5m")
    page.locator(".tb-tree a.tb-node").filter(has_text="Day").first.click()
    watched.drawn()
    assert page.locator(".tb-tree [aria-current=true]").inner_text().split()[:2] == ["Day", "2026-01-05"]
    trades = page.get_by_role("table", name="Trades of 2026-01-05")
    trades.get_by_role("link", name="entry").first.click()
    page.wait_for_url(re.compile("/decisions/"))
    watched.drawn()
    expect(page.get_by_role("table", name=re.compile("What the result of .* is made of")).first).to_be_visible()


def test_a_backtest_is_started_watched_and_compared(watched: Watched) -> None:
    page = watched.open("/backtests")
    page.get_by_label("Agent").click()
    page.get_by_role("option", name="btc-5m").click()
    page.get_by_label("From, UTC").fill(BACKTEST_START)
    page.get_by_label("Memory").click()
    page.get_by_role("option", name="off").click()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("it costs nothing")).to_be_visible()
    expect(page.get_by_role("link", name="open the report")).to_be_visible(timeout=60_000)
    # It is in the list without a reload.
    expect(page.get_by_role("table", name="Backtests").get_by_role("row").filter(has_text="off")).to_have_count(1)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile("/backtests/compare"))
    watched.drawn()
    expect(page.locator(".tb-chart canvas")).to_have_count(1)
    # An hour and a half says nothing, and the page says so.
    expect(page.locator(".tb-alert")).to_contain_text("Verdict: not enough evidence")
    differs = page.get_by_role("table", name="Inputs that differ").get_by_role("row")
    assert differs.filter(has=page.get_by_role("cell", name="memory", exact=True)).count() == 1
    page.get_by_role("table", name="Both backtests").get_by_role("link").first.click()
    page.get_by_role("table", name="Trades of the backtest").get_by_role("link").first.click()
    page.wait_for_url(re.compile("/backtests/.*/decisions/"))
    watched.drawn()


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


def test_no_cell_of_the_trades_is_cut_off(watched: Watched) -> None:
    page = watched.open("/agents/btc-5m")
    reasons = page.locator(".ag-row [col-id=exit_reason]").filter(has_text=re.compile("bars|stop"))
    reasons.first.scroll_into_view_if_needed()
    assert reasons.count() > 0
    # One that is longer than its two lines is read where the pointer is.
    assert all(cell.get_attribute("title") == cell.inner_text() for cell in reasons.all())
    cut = """found => found.filter(each => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight)
        .map(each => each.innerText)"""
    assert page.locator(".ag-row .ag-cell").evaluate_all(cut) == []
    assert page.locator(".ag-header-cell-text").evaluate_all(cut) == []
    # Nor has anybody to scroll for them on a laptop.
    assert page.locator(".ag-center-cols-viewport").evaluate("each => each.scrollWidth - each.clientWidth") <= 0


def test_no_figure_of_the_market_is_cut_off(watched: Watched) -> None:
    page = watched.open("/market?symbol=BTC")
    regime = page.locator(".tb-figure").filter(has_text="Regime")
    expect(regime).to_contain_text(re.compile("chop|trend up|trend down"))
    expect(regime.locator("small")).to_have_text(re.compile("^(low|hi)vol, [0-9]+ bars$"))
    cut = "found => found.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
    assert page.locator(".tb-figure > b, .tb-figure > small").evaluate_all(cut) == []


def test_a_file_of_the_workspace_is_opened(watched: Watched) -> None:
    page = watched.open("/recall")
    page.get_by_role("table", name="Files").get_by_role("link", name="docs/trend.md").click()
    page.wait_for_url(re.compile("/documents"))
    watched.drawn()
    expect(page.locator("#line-3")).to_contain_text("Leave when the averages cross back.")


def test_a_proposal_is_approved(watched: Watched) -> None:
    page = watched.open("/recall")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert "approved" in page.locator(".tb-badge.good").all_inner_texts()


def test_a_part_that_is_drawn_anew_never_vanishes_and_keeps_what_was_opened(watched: Watched) -> None:
    page = watched.open("/")
    page.get_by_text("Other checks").click()
    page.evaluate(
        """() => {
          window.fewest = 99;
          const look = () => {
            const every = [...document.querySelectorAll('section.tb-sheet')];
            window.fewest = Math.min(window.fewest, every.filter(each => !each.closest('.tb-unseen')).length);
            requestAnimationFrame(look);
          };
          look();
        }"""
    )
    other = page.context.new_page()
    other.goto(f"{watched.base}/settings")
    for name, seen in (("Halt the desk", 1), ("Resume the desk", 0)):
        other.get_by_role("button", name=name).click()
        expect(page.get_by_text("The desk is halted")).to_have_count(seen, timeout=20_000)
    assert page.evaluate("window.fewest") >= 5
    assert page.locator("details[data-keep='Other checks']").evaluate_all("all => all.map(each => each.open)") == [True]


def test_what_others_wrote_stays_text(watched: Watched) -> None:
    for path in ("/agents/btc-5m", "/recall?q=trend", "/decisions", "/documents?path=docs/hostile.md", "/agents"):
        page = watched.open(path)
        assert page.locator("img[src*=elsewhere]").count() == 0
        assert page.title().endswith("· Tapebook")
    assert "default-src 'self'" in (page.request.get(watched.base).headers["content-security-policy"])


@pytest.mark.parametrize("path", ["/settings", "/"])
def test_commands_that_a_check_names_are_set_as_code(watched: Watched, path: str) -> None:
    page = watched.open(path)
    health = page.locator(".tb-sheet").filter(has=page.get_by_role("heading", name="Health", exact=True))
    # Checks are read once the page is on the screen, and some are folded away.
    expect(health.get_by_text("tapebook up", exact=True).first).to_be_attached(timeout=20_000)
    assert "tapebook up" in health.locator("code").all_text_contents() and "`" not in (health.text_content() or "`")


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


@pytest.mark.proof
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_fault_or_is_too_wide(
    watched: Watched, aged_home: Path, theme: Theme, width: int
) -> None:
    with app.open(aged_home) as book:
        run, (first, second) = book.runs("btc-5m", most=1)[0], (each["id"] for each in book.backtests.all()[:2])
    paths = [path for _, path, _ in NAVIGATION] + OTHER_PAGES
    paths += [f"/decisions/{run['run_id']}", f"/backtests/{first}", "/documents?path=docs/trend.md&first=1&last=2"]
    watched.page.set_viewport_size({"width": width, "height": 900})
    assert serious_faults(watched, [*paths, f"/backtests/compare?first={first}&second={second}"], theme=theme) == []


def serious_faults(watched: Watched, paths: list[str], *, theme: Theme) -> list[str]:
    """What axe-core finds on pages that somebody could not use."""
    rules = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    script = (Path(rules.__file__).parent / "axe.min.js").read_text("utf-8")
    watched.page.emulate_media(color_scheme=theme)
    found = []
    for path in paths:
        page = watched.open(path)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{path} is too wide"
        page.evaluate(script)
        faults = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        serious = [each for each in faults if each["impact"] in ("serious", "critical")]
        found += [f"{path}: {each['id']} {each['nodes'][0]['html'][:120]}" for each in serious]
    return found
