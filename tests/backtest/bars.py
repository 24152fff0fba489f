"""Invented bars for backtests: a seeded walk that trends for a while, then goes nowhere for a while."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tapebook
from tapebook.clock import SystemClock
from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import E8, HOUR, MINUTE, parse_instant
from tapebook.history.importer import assumed_known_at
from tapebook.settings.config import FILE
from tapebook.wiring import Rooms

START = parse_instant("2023-01-01T00:00:00Z")


def bars(
    symbol: str, *, seed: int, days: float, start: int = START, minutes: int = 5, price: float = 20_000.0
) -> Iterator[Candle]:
    """A symbol's bars, one after the other."""
    chance, drift = random.Random(f"{symbol} {seed}"), 0.0
    for number in range(int(days * 24 * 60 / minutes)):
        if number % 24 == 0:
            drift = chance.choice((-0.001, 0.0, 0.0, 0.001))
        opened, price = price, price * (1 + drift + chance.gauss(0, 0.0015))
        high, low = max(opened, price) * (1 + chance.random() / 900), min(opened, price) * (1 - chance.random() / 900)
        at = start + number * minutes * MINUTE
        first, top, bottom, last = (round(each * E8) for each in (opened, high, low, price))
        yield Candle(symbol, minutes * 60, at, first, top, bottom, last, 10 + chance.random(), 200_000.0, 5)


def make_home(
    folder: Path, *, days: float, seed: int = 1, symbols: tuple[str, ...] = ("BTC",), **settings: object
) -> Path:
    """A new home whose tape has bars and funding, with an agent `tester` beside the first agents."""
    home = folder / "home"
    tapebook.init(home)
    with tapebook.open(home) as book:
        chosen = {"watch": ", ".join(symbols), "engine": "ensemble", "members": "trend, reversion, breakout, carry"}
        book.add_agent("tester", chosen | settings)
    fill_tape(home, [bar for symbol in symbols for bar in bars(symbol, seed=seed, days=days)])
    return home


def model_home(folder: Path, url: str, *, hours: int, symbols: tuple[str, ...] = ("BTC",), **settings: str) -> Path:
    """A home whose `tester` asks a model of the server there every hour, at $5 and $25 for a million tokens."""
    asks = {"engine": "openai", "members": "", "every_minutes": "60", "reflection": "off"}
    chosen: dict[str, Any] = asks | settings
    home = make_home(folder, days=hours / 24, symbols=symbols, **chosen)
    said = f'openai_url = "{url}/v1"\nopenai_model = "some-model"\nmax_tokens = 400\n'
    (home / FILE).write_text(f"[llm]\n{said}", encoding="utf-8")
    return home


def fill_tape(home: Path, found: list[Candle]) -> None:
    """Bars and eight-hourly funding, as imported history."""
    rooms = Rooms(home, clock=SystemClock())
    span = {bar.symbol: (bar.bucket_ts, bar.end) for bar in found}
    first = min((bar.bucket_ts for bar in found), default=0)
    rates = [
        FundingRate(symbol, at, 10_000_000, 0)
        for symbol, (_, end) in span.items()
        for at in range(-(-first // (8 * HOUR)) * 8 * HOUR, end, 8 * HOUR)
    ]
    rooms.tape.commit([*found, *rates], assumed=assumed_known_at)
    rooms.close()
