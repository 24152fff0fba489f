"""The report: one page, whole without a network, with every text as text, and small for a year of bars."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tapebook.backtest.equity import EquityPoint
from tapebook.backtest.price_series import BarColumns
from tapebook.domain.units import HOUR, MINUTE
from tapebook.report.export import ReportData
from tapebook.report.html_page import MOST_CANDLES, MOST_TRADES, chart_values, coarser_bars, report_html
from tests.backtest.books import END, START

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>&amp; {{data}} \" "
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Reader(HTMLParser):
    """Checks that tags close in order, and notes what there is."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.data: dict[str, str] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        self.data[inside] = self.data.get(inside, "") + data
        if inside not in ("script", "style"):
            self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def embedded(page: str) -> dict[str, object]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content: dict[str, object] = json.loads(found[1])
    return content


def test_the_page_is_whole_and_asks_nobody(shown: tuple[ReportData, list[BarColumns]]) -> None:
    page = report_html(*shown)
    reader = read(page)
    assert not {"link", "iframe", "object", "img"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name in ("src", "href", "srcset", "action")]
    assert not re.search(r"https?://|//cdn|@import|url\(|fetch\(|XMLHttp|WebSocket|import\(", page)
    assert "default-src 'none'" in page and "{{" not in page
    assert page == report_html(*shown)


def test_the_tables_say_everything_without_the_script(shown: tuple[ReportData, list[BarColumns]]) -> None:
    text = read(report_html(*shown)).text
    result = shown[0].result
    names = [chunk.name for chunk in result.chunks]
    baselines = ("buy and hold", "buy and hold, same exposure", "random entries, same sides")
    for word in (*names, *baselines, "good", "chop_lowvol"):
        assert word in text
    assert "ETH: no funding in the tape" in text and result.packets_sha256 in text
    assert all(chunk.head_hash in text and chunk.lessons_hash in text for chunk in result.chunks)
    # A share is followed by its interval and n; the others are arithmetic.
    for share in re.finditer(r"<td>\d+%<small>(.*?)</small>", report_html(*shown)):
        assert re.fullmatch(r"\d+–\d+%, n=[\d,]+", share[1])


def test_text_stays_text(shown: tuple[ReportData, list[BarColumns]]) -> None:
    told, bars = shown
    result = told.result
    chunk = msgspec.structs.replace(result.chunks[0], name=HOSTILE, lessons=(HOSTILE,), snapshots=(HOSTILE,))
    row = msgspec.structs.replace(result.total.providers[0], name=HOSTILE)
    total = msgspec.structs.replace(result.total, providers=(row,), regimes=(row,), assets=(row,))
    changed = msgspec.structs.replace(
        result,
        agent=HOSTILE,
        strategy=HOSTILE,
        engine=HOSTILE,
        notes=(HOSTILE,),
        symbols=(HOSTILE,),
        chunks=(chunk, *result.chunks[1:]),
        total=total,
    )
    first = told.trades[0]
    traded = msgspec.structs.replace(first, trade=msgspec.structs.replace(first.trade, exit_reason=HOSTILE))
    plain = read(report_html(told, bars))
    page = report_html(msgspec.structs.replace(told, result=changed, trades=[traded]), bars)
    reader = read(page)
    assert reader.tags.count("script") == plain.tags.count("script") == 2 and "img" not in reader.tags
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert reader.text.count("<script>alert(1)</script>") >= 8
    drawn = embedded(page)
    assert drawn["agent"] == HOSTILE and isinstance(drawn["trades"], list) and HOSTILE[:80] in drawn["trades"][0]


def test_what_is_drawn_is_what_was_measured(shown: tuple[ReportData, list[BarColumns]]) -> None:
    told, bars = shown
    drawn = chart_values(told, bars)
    # Twice: with what an insurance paid, and without it.
    assert drawn["equity"][-1] == [END // 1000, *[round(told.result.total.equity_end_usd_e6 / 1e6, 2)] * 2]
    assert [each["name"] for each in drawn["baselines"]] == [each.name for each in told.result.baselines]
    assert {len(each["usd"]) for each in drawn["baselines"]} == {len(drawn["days"])} == {29}
    assert len(drawn["trades"]) == told.result.total.trades
    market = drawn["markets"][0]
    assert (market["symbol"], market["at"], market["step"], len(market["rows"])) == ("BTC", START // 1000, 3600, 672)
    for place, opened, high, low, closed in market["rows"]:
        assert low <= min(opened, closed) <= max(opened, closed) <= high and 0 <= place < 672
    entered, price = drawn["trades"][0][1:3]
    assert price == pytest.approx(told.trades[0].outcome.entry_price_e8 / 1e8, rel=1e-5)
    assert entered == told.trades[0].outcome.entered_at // 1000


def year(minutes: int = 5) -> BarColumns:
    count = 365 * 24 * 60 // minutes
    walk = 20_000 * np.exp(np.cumsum(np.sin(np.arange(count)) / 300))
    at = START + minutes * MINUTE * np.arange(count, dtype=np.int64)
    following = np.append(walk[1:], walk[-1])
    return BarColumns(
        "BTC", minutes * MINUTE, at, walk, np.maximum(walk, following), np.minimum(walk, following), following
    )


@pytest.mark.parametrize("most", [100, 5_000, 40_000, 200_000])
def test_coarser_bars_are_bars_of_the_same_market(most: int) -> None:
    bars = year()
    few = coarser_bars(bars, most)
    assert len(few) <= most and few.step_ms % bars.step_ms == 0
    assert (few.open[0], few.close[-1]) == (bars.open[0], bars.close[-1])
    assert (few.high.max(), few.low.min()) == (bars.high.max(), bars.low.min())
    assert all(later - sooner == few.step_ms for sooner, later in pairwise(few.at.tolist()))
    group = bars.at // few.step_ms == few.at[1] // few.step_ms
    assert few.high[1] == bars.high[group].max() and few.close[1] == bars.close[group][-1]


def test_bars_with_a_hole_keep_their_places() -> None:
    bars = year(60)
    kept = np.r_[0:50, 200 : len(bars)]
    prices = (column[kept] for column in (bars.open, bars.high, bars.low, bars.close))
    holed = BarColumns("BTC", HOUR, bars.at[kept], *prices)
    few = coarser_bars(holed, 3_000)
    assert few.step_ms == 4 * HOUR and len(few) < 8_760 // 4 and (np.diff(few.at) > 0).all()


def test_a_year_of_twenty_symbols_and_thousands_of_trades_stays_small(
    shown: tuple[ReportData, list[BarColumns]],
) -> None:
    told, _ = shown
    bars = [msgspec.structs.replace(year(15), symbol=f"S{number}") for number in range(19)] + [year()]
    busy = [told.trades[place % len(told.trades)] for place in range(MOST_TRADES + 500)]
    points = [EquityPoint(START + place * MINUTE, 10**10 + place % 977) for place in range(120_000)]
    page = report_html(ReportData(told.result, points, busy), bars)
    assert len(page.encode()) < 3_000_000
    drawn = chart_values(ReportData(told.result, points, busy), bars)
    assert sum(len(each["rows"]) for each in drawn["markets"]) <= MOST_CANDLES and len(drawn["equity"]) <= 2_000
    assert "500 earlier ones are in the CSV" in page


def test_the_script_parses() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine to parse the page's script with")
    script = Path(__file__).parents[2] / "src" / "tapebook" / "report" / "page" / "page.js"
    ran = subprocess.run([node, "--check", str(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
