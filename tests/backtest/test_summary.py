"""A backtest for people and programs: every rate with n and interval, and no text that steers a terminal."""

import json
import re

import msgspec

from tapebook.backtest.result import BacktestResult
from tapebook.backtest.summary import summary_text
from tapebook.report.backtest import chunk_lines, chunk_view, result_view, summary_lines
from tests.backtest.books import Played

HOSTILE = "buy \x1b[31mnow\x07\nsecond line \u202e"


def hostile(result: BacktestResult) -> BacktestResult:
    chunk = msgspec.structs.replace(result.chunks[0], lessons=(HOSTILE,), name=HOSTILE)
    return msgspec.structs.replace(result, agent=HOSTILE, strategy=HOSTILE, notes=(HOSTILE,), chunks=(chunk,) * 4)


def test_a_chunk_says_what_it_came_to_and_what_it_taught(played: Played) -> None:
    chunk = played.result.chunks[1]
    lines = chunk_lines(chunk)
    text = "\n".join(lines)
    assert lines[0] == "2026-W03  2026-01-12 to 2026-01-19, 336 ticks"
    assert f"won       {chunk.win_rate.value:.0%} (n={chunk.trades}, 95% " in text
    assert re.search(r"good +8 +100% \(\d+ to 100\) +\S+ \(\S+ to \S+\) +\S+ +- +unclear", text)
    assert "Symbol selection: ETH does worse in 2026-W03" in text and "  snapshot    2026-W03" in text
    parts = re.search(r"from +market (\S+), timing (\S+), sizing (\S+), fees (\S+), funding (\S+)", text)
    assert parts and abs(sum(map(float, parts.groups())) - chunk.net_usd_e6 / 1e6) < 0.03


def test_the_whole_fits_a_screen_and_compares_chunks(played: Played) -> None:
    lines = summary_lines(played.result)
    text = "\n".join(lines)
    assert len(lines) < 60 and max(map(len, lines)) <= 160
    for heading in ("won by provider", "won by regime", "Sharpe by asset", "beside"):
        assert sum(heading in line for line in lines) == 1
    assert re.search(r"closed trades: better than \d+% \(n=500, 95% \d+% to \d+%\) of random replays", text)
    assert f"packets sha256 {played.result.packets_sha256}" in text and "note: ETH: no funding" in text
    many = msgspec.structs.replace(played.result, chunks=played.result.chunks * 3)
    assert "(8 earlier chunks are in --json)" in "\n".join(summary_lines(many))


def test_no_estimate_stands_without_its_interval(played: Played) -> None:
    for chunk in played.result.chunks:
        for line in chunk_lines(chunk):
            if "%" in line and "lessons" not in line:
                fair = re.search(r"\((n=|\d+ to )|equity|drawdown|of the time", line)
                assert fair, line


def test_text_from_elsewhere_steers_nothing(played: Played) -> None:
    made = hostile(played.result)
    everything = [*summary_lines(made), *(line for chunk in made.chunks for line in chunk_lines(chunk))]
    everything += summary_text(made).split("\n")
    assert all(line.isprintable() for line in everything)
    assert sum("buy" in line for line in everything) > 4


def test_a_summary_is_short_and_says_where_it_is_from(played: Played) -> None:
    text = summary_text(played.result)
    assert len(text.splitlines()) <= 60 and text.startswith(f"# Backtest {played.result.id}: voter-1h\n")
    for word in ("strategy: Ask three.", "BTC, ETH", "2026-01-05 to 2026-02-02", "Sharpe", "## Lessons", "## Notes"):
        assert word in text
    crowded = msgspec.structs.replace(played.result, chunks=played.result.chunks * 20, notes=("note",) * 80)
    assert len(summary_text(crowded).splitlines()) == 60


def test_programs_get_every_figure(played: Played) -> None:
    view = json.loads(msgspec.json.encode(result_view(played.result, ticks_per_second=412.5)))
    wanted = {"ticks", "trades", "pnl", "sharpe", "drawdown", "win_rate", "providers", "regimes", "assets"}
    for chunk in (*view["chunks"], view["total"]):
        assert wanted | {"lessons_hash", "packets_sha256"} <= set(chunk)
        assert not [key for key in chunk if key.endswith("_e6")]
        assert abs(sum(chunk["parts"].values()) - chunk["pnl"]["net_usd"]) < 1e-6
        for row in (*chunk["providers"], *chunk["regimes"], *chunk["assets"]):
            assert row["win_rate"]["n"] == row["n"] and row["win_rate"]["low"] <= row["win_rate"]["high"]
    assert view["ticks_per_second"] == 412.5 and view["start"] == "2026-01-05T00:00:00.000Z"
    assert [each["name"] for each in view["baselines"]] == [
        *("cash", "buy and hold", "buy and hold, same exposure", "random entries, same sides")
    ]
    assert view["baselines"][3]["luck"]["beaten"]["n"] == view["baselines"][3]["luck"]["replications"] == 500
    assert chunk_view(played.result.chunks[0])["pnl"]["net_usd"] == played.result.chunks[0].net_usd_e6 / 1e6
