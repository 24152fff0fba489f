"""Everything the page shows can be had by one command, from Python and over the API."""

import json
from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec
import pytest

from tapebook.api import app
from tapebook.surfaces import cli
from tests.surfaces.web.panels import PANELS


def names_of(book: app.Tapebook) -> dict[str, str]:
    """What the words of the table stand for in a home."""
    first, second = (each["id"] for each in book.backtests.all()[:2])
    run = next(run for run in book.runs("btc-5m", most=50) if run["actions"])
    return {
        **{"AGENT": "btc-5m", "SYMBOL": "BTC", "RUN": run["run_id"], "PATH": "docs/trend.md"},
        **{"BACKTEST": first, "OTHER": second, "HOME": str(book.folder)},
    }


def filled(text: str, names: Mapping[str, str]) -> str:
    """A cell of the table with the names of a home."""
    for word, name in names.items():
        text = text.replace(word, name)
    return text


def test_every_panel_is_had_by_a_command_from_python_and_over_the_api(
    aged_home: Path, served: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert len(PANELS) > 30
    with app.open(aged_home) as book:
        names = names_of(book)
        for text in sorted({row.python for row in PANELS}):
            # Each way gives something: an empty answer would show nothing on the page either.
            value = eval(filled(text, names), {"tb": book})
            assert value is not None and msgspec.json.encode(value, enc_hook=str), text
    for command in sorted({row.command for row in PANELS}):
        program, *words = filled(command, names).split()
        where = [] if "--home" in words else ["--home", str(aged_home)]
        capfd.readouterr()
        assert (program, cli.main([*words, *where])) == ("tapebook", 0), command
        assert json.loads(capfd.readouterr().out) is not None, command
    with httpx.Client(base_url=f"{served}/api/v1", timeout=30) as client:
        for path in sorted({row.path for row in PANELS}):
            answer = client.get(filled(path, names))
            assert answer.status_code == 200, f"{path}: {answer.text}"
            answer.json()
