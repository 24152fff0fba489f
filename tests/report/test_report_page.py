"""The report in a real browser: it draws, answers to hand and mouse, fits a phone, and takes no text for markup."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Dialog, Page

from tapebook.backtest.price_series import BarColumns
from tapebook.report.export import ReportData
from tapebook.report.html_page import chart_values, report_html
from tests.report.test_report import HOSTILE

# How many colours a canvas shows: one that was not drawn has a single one.
COLOURS = """(canvas) => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const seen = new Set();
  for (let at = 0; at < pixels.length; at += 4) seen.add(`${pixels[at]} ${pixels[at + 1]} ${pixels[at + 2]}`);
  return seen.size;
}"""
PICTURE = "(canvas) => canvas.toDataURL()"
# What the page says where the mouse is, going down the canvas at one place of it.
SAID_AT = """(canvas, x) => {
  const box = canvas.getBoundingClientRect(), said = new Set();
  for (let y = 0; y < box.height; y += 3) {
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + x, clientY: box.y + y, pointerId: 1 }));
    said.add(document.getElementById("tip").textContent);
  }
  return [...said];
}"""


class Sheet:
    """A page in the browser, with all that went wrong on it and all that it asked for."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self._file = page, folder / "report.html"
        self.problems: list[str] = []
        self.asked: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("dialog", self._refuse)
        page.on("request", lambda request: self.asked.append(request.url))

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(dialog.message)
        dialog.dismiss()

    def show(self, html: str) -> None:
        """Opens a page from a file, as people do."""
        self._file.write_text(html, "utf-8")
        self.page.goto(self._file.as_uri())

    def asks(self, canvas: str, question: str, *given: Any) -> Any:
        """What a function says of a canvas, once everything is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.page.locator(f"#{canvas}").evaluate(question, *given)

    def press(self, group: str, name: str) -> None:
        """Presses a button."""
        self.page.locator(f"#{group}").get_by_role("button", name=name, exact=True).click()


@pytest.fixture
def sheet(browser: Browser, tmp_path: Path) -> Iterator[Sheet]:
    page = browser.new_page(viewport={"width": 1_100, "height": 900})
    made = Sheet(page, tmp_path)
    yield made
    page.close()
    assert made.problems == []
    assert len(made.asked) == 1


def test_a_backtest_of_one_chunk_has_one_range(sheet: Sheet, shown: tuple[ReportData, list[BarColumns]]) -> None:
    told, markets = shown
    one = replace(told.result, chunks=told.result.chunks[:1])
    sheet.show(report_html(replace(told, result=one), markets))
    assert sheet.page.locator("#ranges button").all_inner_texts() == ["all"]


def test_both_charts_are_drawn_in_either_light(sheet: Sheet, shown: tuple[ReportData, list[BarColumns]]) -> None:
    sheet.show(report_html(*shown))
    assert sheet.page.title() == f"{shown[0].result.agent}, backtest {shown[0].result.id}"
    bright = {name: sheet.asks(name, PICTURE) for name in ("equity", "market")}
    assert min(sheet.asks(name, COLOURS) for name in bright) > 5
    sheet.page.emulate_media(color_scheme="dark")
    assert all(sheet.asks(name, PICTURE) != picture for name, picture in bright.items())


def test_a_trade_and_a_day_are_told_under_the_mouse(sheet: Sheet, shown: tuple[ReportData, list[BarColumns]]) -> None:
    sheet.show(report_html(*shown))
    drawn = chart_values(*shown)
    trade = next(each for each in drawn["trades"] if each[0] == 0)
    width = sheet.page.locator("#market").bounding_box()["width"]  # type: ignore[index]
    place = 8 + (trade[1] - drawn["start"]) / (drawn["end"] - drawn["start"]) * (width - 70)
    told = sheet.asks("market", SAID_AT, place)
    assert any(f"at {trade[2]:g}" in each and "USD, net" in each for each in told)
    assert any("below its peak" in each and "buy and hold" in each for each in sheet.asks("equity", SAID_AT, width / 2))


def test_ranges_lines_and_zoom_change_what_is_drawn(sheet: Sheet, shown: tuple[ReportData, list[BarColumns]]) -> None:
    sheet.show(report_html(*shown))
    chunk = shown[0].result.chunks[1].name
    pictures = [sheet.asks("market", PICTURE)]
    for group, name in (("ranges", chunk), ("zoom", "closer"), ("zoom", "wider"), ("ranges", "all")):
        sheet.press(group, name)
        pictures.append(sheet.asks("market", PICTURE))
    whole, one, closer, wider, again = pictures
    assert (whole, one) == (again, wider) and len({whole, one, closer}) == 3
    before = sheet.asks("equity", PICTURE)
    sheet.press("legend", "buy and hold")
    assert sheet.asks("equity", PICTURE) != before
    sheet.press("legend", "buy and hold")
    assert sheet.asks("equity", PICTURE) == before


def test_it_fits_a_phone(sheet: Sheet, shown: tuple[ReportData, list[BarColumns]]) -> None:
    sheet.page.set_viewport_size({"width": 360, "height": 740})
    sheet.show(report_html(*shown))
    assert sheet.page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert sheet.asks("market", COLOURS) > 5


def test_text_from_outside_does_nothing(sheet: Sheet, shown: tuple[ReportData, list[BarColumns]]) -> None:
    told, bars = shown
    first, *others = told.result.chunks
    chunks = (replace(first, name=HOSTILE, lessons=(HOSTILE,)), *others)
    hostile = replace(told.result, agent=HOSTILE, strategy=HOSTILE, chunks=chunks)
    trade = replace(told.trades[0], trade=replace(told.trades[0].trade, exit_reason=HOSTILE))
    sheet.show(report_html(replace(told, result=hostile, trades=[trade]), bars))
    assert sheet.page.locator("script").count() == 2 and sheet.page.locator("img").count() == 0
    assert HOSTILE.strip() in sheet.page.locator("#legend button").first.inner_text()
