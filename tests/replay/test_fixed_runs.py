"""Runs whose every byte is on record: a demo, a desk on both databases, a backtest of a month with its report.

A change of the code that is not meant to change what is remembered leaves all of them as they are. Where a change is
meant to, `pytest -m proof --update-golden` writes the record anew, and the commit says why. Left out of the record is
what names the code itself: the package's version, the identity of a backtest, and the random replays it seeds.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tapebook
from tapebook.api import app
from tapebook.home import make_home
from tests.backtest.bars import make_home as make_backtest_home
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.replay import desk
from tests.replay.home_fingerprint import digest, fingerprint

pytestmark = pytest.mark.proof
Golden = Callable[[str, str], None]
# What a backtest says of the code that made it, and of the machine's own time.
OF_THE_CODE = {"id", "code_sha256", "version", "made_at", "path", "home", "ticks_per_second", "seconds"}


def record(found: dict[str, object]) -> str:
    """A fingerprint as text."""
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def test_demo(place: Path, golden: Golden) -> None:
    report = app.demo(place / "home", seconds=9.0, seed=42)
    lines = "\n".join(report.lines()).replace(str(place), "")
    golden("fixed-demo.json", record({**fingerprint(place / "home"), "report_sha256": digest(lines)}))


@pytest.mark.parametrize("story", ["trends", "limits", "crash"])
@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
def test_desk(place: Path, golden: Golden, request: pytest.FixtureRequest, store: str, story: desk.StoryName) -> None:
    """One record for both databases."""
    home = place / "home"
    make_home(home)
    if store == "PostgreSQL":
        url = request.getfixturevalue("empty_postgres")
        (home / "tapebook.toml").write_text(f'[store]\nbook = "{url}"\n', encoding="utf-8")
    desk.trade(home, story=story, hands="crew")
    golden(f"fixed-desk-{story}.json", record(fingerprint(home)))


def test_month_of_a_backtest(place: Path, golden: Golden) -> None:
    home = make_backtest_home(place, days=31, symbols=("BTC", "ETH"), seed=5)
    with tapebook.open(home) as book:
        result = book.backtest("tester", chunks="week")
        shown = book.backtests.show(result.id)
    inside = fingerprint(home / "backtests" / result.id)
    # When its bars were imported is a moment of this machine.
    del inside["rows_sha256"]
    golden("fixed-backtest.json", record({**inside, "report_sha256": digest(without_code(shown))}))


def without_code(view: Any) -> Any:
    """A view without what names the code."""
    if isinstance(view, dict):
        return {key: without_code(value) for key, value in view.items() if key not in OF_THE_CODE}
    if not isinstance(view, list | tuple):
        return view
    # Random replays are seeded by the identity of the backtest.
    return [without_code(each) for each in view if not (isinstance(each, dict) and "luck" in each)]
