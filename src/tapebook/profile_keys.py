"""Every key of an agent's profile: what it may be, how it is read, shown, and where it stands in the profile.

Amounts stand in people's units here and in integers there. docs/agents.md has a row for each.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from tapebook.domain.agent import HORIZONS, MOST_TRADES_SHOWN, MarginMode, Mode
from tapebook.domain.instants import DAY, MINUTE, SECOND
from tapebook.domain.money import E6, scaled
from tapebook.domain.note import CADENCES
from tapebook.domain.text import has_hidden

SKILL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
SYMBOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")
_ADAPTER = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MEMBER = re.compile(r"[a-z][a-z0-9_]{0,39}(:[\x21-\x2b\x2d-\x7e]{1,100})?")
_MODEL = re.compile(r"[\x21-\x7e]{1,100}")
_SPAN = re.compile(r"([0-9]{1,5})([mhd]?)")
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_MOST_USD = 10**9
_MOST_SYMBOLS = 500
_MOST_RULES = 20
_MOST_TEXT = 100_000
_PPM_OF_BPS = 100
_RATE = 10_000


class Key(NamedTuple):
    """One thing people may write: where it stands in the profile, how it is read and shown, and what it may be."""

    place: str
    read: Callable[[Any], Any]
    show: Callable[[Any], Any]
    may_be: str


# Readers: what was written in, what the profile keeps out; a ValueError when it cannot be.


def _matching(pattern: re.Pattern[str], *, empty: bool = False) -> Callable[[Any], str]:
    def read(value: str) -> str:
        if not (pattern.fullmatch(value) or (empty and value == "")):
            raise ValueError
        return value

    return read


def _listed(pattern: re.Pattern[str], least: int, most: int) -> Callable[[Any], tuple[str, ...]]:
    def read(value: str | list[str]) -> tuple[str, ...]:
        names = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        if not least <= len(names) <= most or len({*names}) < len(names) or not all(map(pattern.fullmatch, names)):
            raise ValueError
        return tuple(names)

    return read


def _number(unit: int, least: float, most: float) -> Callable[[Any], int]:
    """A number of people's units as an integer of ours."""

    def read(value: str | int | float) -> int:
        number = scaled(value, unit)
        if isinstance(value, bool) or not least * unit <= number <= most * unit:
            raise ValueError
        return number

    return read


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: str | int) -> int:
        number = int(value) if isinstance(value, str) else value
        if type(number) is not int or not least <= number <= most:
            raise ValueError
        return number

    return read


def _cadence(value: str | int) -> int:
    """Minutes as a number, or a span such as 5m, 1h or 1d."""
    found = _SPAN.fullmatch(value.strip() if isinstance(value, str) else str(value))
    if found is None or isinstance(value, bool):
        raise ValueError
    cadence = int(found[1]) * {"": 1, "m": 1, "h": 60, "d": 1440}[found[2]] * MINUTE
    if not MINUTE <= cadence <= DAY:
        raise ValueError
    return cadence


def _bar(value: str | int) -> int:
    minutes = _whole(1, 1440)(value)
    # Bars that do not divide a day would begin at another time every day.
    if 1440 % minutes:
        raise ValueError
    return minutes


def _switch(value: str | bool) -> bool:
    if isinstance(value, bool):
        return value
    if value.lower() not in _SWITCH:
        raise ValueError
    return _SWITCH[value.lower()]


def _text(value: str) -> str:
    text = value.replace("\r\n", "\n").strip()
    if has_hidden(text.replace("\n", "").replace("\t", "")) or len(text) > _MOST_TEXT:
        raise ValueError
    return text


def _rules(value: str | list[str]) -> tuple[str, ...]:
    rules = tuple(rule.strip() for rule in ([value] if isinstance(value, str) else value) if rule.strip())
    if len(rules) > _MOST_RULES or any(len(rule) > 240 or has_hidden(rule) for rule in rules):
        raise ValueError
    return rules


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: str) -> str:
        if value not in words:
            raise ValueError
        return value

    return read


# Ways to show.


def _same(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _units(unit: int) -> Callable[[int], float]:
    return lambda value: value // unit if value % unit == 0 else value / unit


def _usd(place: str, *, least: float = 0) -> Key:
    words = f"a number of USD from {least:g} to {_MOST_USD:,}"
    return Key(place, _number(E6, least, _MOST_USD), _units(E6), words)


_ADAPTERS = "the name of an engine, or empty for the home's default"
KEYS: dict[str, Key] = {
    "watch": Key(
        *("watchlist", _listed(SYMBOL, 1, _MOST_SYMBOLS), _same),
        "symbols such as BTC, ETH: each once, of up to 40 letters, digits, . _ : or -",
    ),
    "engine": Key("engine", _matching(_ADAPTER, empty=True), _same, _ADAPTERS),
    "model": Key("model", _matching(_MODEL, empty=True), _same, "the name of a model, without spaces, or empty"),
    "members": Key("members", _listed(_MEMBER, 0, 20), _same, "engines, each once, such as trend or openai:MODEL"),
    "broker": Key("broker", _matching(_ADAPTER), _same, "the name of a broker"),
    "mode": Key("mode", _one_of(get_args(Mode)), _same, "trade or dry_run"),
    "every_minutes": Key(
        "cadence_ms", _cadence, _units(MINUTE), "whole minutes from 1 to 1440, such as 5 (or 5m, 1h, 1d)"
    ),
    "strategy": Key("strategy", _text, _same, "text in which every character is seen, or @FILE for the text of a file"),
    "avoid": Key("avoid", _rules, _same, f"up to {_MOST_RULES} rules, each one line of at most 240 characters"),
    "manual": Key("manual", _text, _same, "text in which every character is seen, or @FILE for the text of a file"),
    "cash_usd": _usd("starting_cash_usd_e6", least=1),
    "margin": Key("margin", _one_of(get_args(MarginMode)), _same, "cross or isolated"),
    "horizon": Key("context.horizon", _one_of(tuple(HORIZONS)), _same, f"one of {', '.join(HORIZONS)}"),
    "bar_minutes": Key("context.bar_minutes", _bar, _same, "whole minutes that divide a day, from 1 to 1440"),
    "bar_count": Key("context.bar_count", _whole(2, 500), _same, "a whole number from 2 to 500"),
    "recent_trades_k": Key(
        "context.recent_trades_k", _whole(0, MOST_TRADES_SHOWN), _same, f"a whole number from 0 to {MOST_TRADES_SHOWN}"
    ),
    "memory": Key("context.memory", _switch, _same, "on or off"),
    "max_position_usd": _usd("caps.max_position_usd_e6", least=1),
    "max_account_usd": _usd("caps.max_account_usd_e6", least=1),
    "max_daily_loss_usd": _usd("caps.max_daily_loss_usd_e6", least=0.01),
    "min_notional_usd": _usd("caps.min_notional_usd_e6"),
    "max_leverage": Key("caps.max_leverage", _whole(1, 100), _same, "a whole number from 1 to 100"),
    "max_orders_per_hour": Key("caps.max_orders_per_hour", _whole(0, 10_000), _same, "a whole number from 0 to 10000"),
    "max_price_deviation_bps": Key(
        *("caps.max_price_deviation_ppm", _number(_PPM_OF_BPS, 0, 10_000), _units(_PPM_OF_BPS)),
        "a number of bps from 0 to 10000",
    ),
    "max_data_age_seconds": Key(
        "caps.max_data_age_ms", _number(SECOND, 1, 86_400), _units(SECOND), "a number of seconds from 1 to 86400"
    ),
    "cooldown_minutes": Key(
        "caps.cooldown_ms", _number(MINUTE, 0, 1440), _units(MINUTE), "a number of minutes from 0 to 1440"
    ),
    "max_model_usd_per_run": _usd("caps.max_model_usd_e6_per_run"),
    "max_model_usd_per_day": _usd("caps.max_model_usd_e6_per_day"),
    "reflection": Key("reflection.cadence", _one_of(CADENCES), _same, f"one of {', '.join(CADENCES)}"),
    "reflection_trades": Key("reflection.every_n_trades", _whole(1, 1_000), _same, "a whole number from 1 to 1000"),
    "reflector": Key("reflection.reflector", _matching(_ADAPTER), _same, "the name of a reflector"),
    "skills": Key("skills", _listed(SKILL, 0, 20), _same, "names of skills, each once, of letters, digits, . _ or -"),
    "experience": Key("experience.enabled", _switch, _same, "on or off"),
    "max_memory_size": Key("experience.max_memory_size", _whole(1, 100_000), _same, "a whole number from 1 to 100000"),
    "learning_rate": Key(
        *("experience.learning_rate_e4", _number(_RATE, 0.001, 1), _units(_RATE)), "a number from 0.001 to 1"
    ),
    "context_window": Key("experience.context_window", _whole(1, 3_650), _same, "whole days from 1 to 3650"),
    "neighbours": Key("experience.neighbours", _whole(5, 200), _same, "a whole number from 5 to 200"),
    "enabled": Key("enabled", _switch, _same, "on or off"),
}
SHORT = {"trades": "recent_trades_k", "every": "every_minutes", "cash": "cash_usd"}
"""Names that are quicker to write."""
CONTEXT_KEYS = tuple(name for name, key in KEYS.items() if key.place.startswith("context."))
