"""Reads and shows an agent's profile as people write it: keys with their units, from TOML, flags or a program.

1. `KEYS` says of each key what it may be, how it is read and shown, and where it stands in the profile. Amounts
   are in people's units here and in integers there. docs/agents.md has a row for each;
2. `settings_from_file` and `settings_from_mapping` read what was written;
3. `apply_settings` lays it over a profile;
4. `profile_by_keys` gives a profile with the same keys, `differences` what two of them do not share.

A value that cannot be is refused in one line that names the key, and in a file its line.
"""

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from tapebook.domain.agent import (
    HORIZONS,
    LESSONS_POLICIES,
    MEMORY_MAY_BE,
    MOST_TRADES_SHOWN,
    OWN,
    REFLECTION_CADENCES,
    AgentProfile,
    ContextProfile,
    EngineSettingPairs,
    MarginMode,
    Subscription,
    TradingMode,
    memory_setting_text,
    parse_memory,
)
from tapebook.domain.text import has_hidden_characters
from tapebook.domain.units import DAY, E6, MINUTE, SECOND, to_units
from tapebook.errors import BadInput

SKILL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_MACRO_SUBJECT = re.compile(r"own|global/defi|(?:chain|protocol|stablecoin)/[a-z0-9][a-z0-9.-]{0,60}")
_MOST_SUBJECTS = 8
_NOTHING: tuple[str | list[str], ...] = ("none", "off", ["none"], ["off"])
SYMBOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")
_ADAPTER_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MEMBER = re.compile(r"[a-z][a-z0-9_]{0,39}(:[\x21-\x2b\x2d-\x7e]{1,100})?")
_MODEL_NAME = re.compile(r"[\x21-\x7e]{1,100}")
_SPAN = re.compile(r"([0-9]{1,5})([mhd]?)")
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
# Fits integers of e6 and e8 with room for sums.
_MOST_USD = 10**9
# Every symbol is a decision of its own at every slot: a list of everything is a mistake.
_MOST_SYMBOLS = 500
_MOST_RULES = 20
# Far more than fits a packet: what is too long there is refused with a better reason.
_MOST_TEXT = 100_000
_MOST_SETTING = 200
_PPM_OF_BPS = 100
_RATE = 10_000


class ProfileKey(NamedTuple):
    """One thing people may write: where it stands in the profile, how it is read and shown, and what it may be."""

    place: str
    read: Callable[[Any], Any]
    show: Callable[[Any], Any]
    may_be: str


# Readers: what was written in, what the profile keeps out; a ValueError when it cannot be.


def _text_matching(pattern: re.Pattern[str], *, empty: bool = False) -> Callable[[Any], str]:
    def read(value: str) -> str:
        if not (pattern.fullmatch(value) or (empty and value == "")):
            raise ValueError
        return value

    return read


def _list_of(pattern: re.Pattern[str], least: int, most: int) -> Callable[[Any], tuple[str, ...]]:
    def read(value: str | list[str]) -> tuple[str, ...]:
        names = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        if not least <= len(names) <= most or len({*names}) < len(names) or not all(map(pattern.fullmatch, names)):
            raise ValueError
        return tuple(names)

    return read


def _number(unit: int, least: float, most: float) -> Callable[[Any], int]:
    """A number of people's units as an integer of ours."""

    def read(value: str | int | float) -> int:
        number = to_units(value, unit)
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
    if has_hidden_characters(text.replace("\n", "").replace("\t", "")) or len(text) > _MOST_TEXT:
        raise ValueError
    return text


def _rules(value: str | list[str]) -> tuple[str, ...]:
    rules = tuple(rule.strip() for rule in ([value] if isinstance(value, str) else value) if rule.strip())
    if len(rules) > _MOST_RULES or any(len(rule) > 240 or has_hidden_characters(rule) for rule in rules):
        raise ValueError
    return rules


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: str) -> str:
        if value not in words:
            raise ValueError
        return value

    return read


def _follow_lessons(value: str) -> str | msgspec.UnsetType:
    return msgspec.UNSET if value == "off" else _one_of(LESSONS_POLICIES)(value)


def _subscription(pattern: re.Pattern[str]) -> Callable[[Any], Subscription]:
    def read(value: str | list[str]) -> Subscription:
        names = _list_of(pattern, 0, _MOST_SUBJECTS)([] if value in _NOTHING else value)
        return msgspec.UNSET if names == (OWN,) else names

    return read


def _engine_settings(value: str | Mapping[str, Any]) -> EngineSettingPairs | msgspec.UnsetType:
    """A section, or `fast=5,slow=20`, as text by name; what each may be is known to the engine."""
    pairs = [_pair("engine_settings", part) for part in value.split(",")] if isinstance(value, str) and value else value
    found = dict(pairs or {})
    for name, each in found.items():
        if not _ADAPTER_NAME.fullmatch(name) or isinstance(each, Mapping | list) or len(f"{each}") > _MOST_SETTING:
            raise ValueError
        if isinstance(each, float) and not math.isfinite(each):
            raise ValueError
    written = {name: json.dumps(each) if isinstance(each, bool) else f"{each}" for name, each in found.items()}
    return tuple(sorted(written.items())) or msgspec.UNSET


# Ways to show.


def _show_same(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _show_subscription(value: Subscription) -> list[str]:
    return [OWN] if value is msgspec.UNSET else [*value] or ["none"]


def _show_engine_settings(value: EngineSettingPairs | msgspec.UnsetType) -> dict[str, str]:
    return dict(value or ())


def _show_in_units(unit: int) -> Callable[[int], float]:
    return lambda value: value // unit if value % unit == 0 else value / unit


def _usd_key(place: str, *, least: float = 0) -> ProfileKey:
    words = f"a number of USD from {least:g} to {_MOST_USD:,}"
    return ProfileKey(place, _number(E6, least, _MOST_USD), _show_in_units(E6), words)


_ENGINE_MAY_BE = "the name of an engine, or empty for the home's default"
KEYS: dict[str, ProfileKey] = {
    "watch": ProfileKey(
        *("watchlist", _list_of(SYMBOL_NAME, 1, _MOST_SYMBOLS), _show_same),
        "symbols such as BTC, ETH: each once, of up to 40 letters, digits, . _ : or -",
    ),
    "engine": ProfileKey("engine", _text_matching(_ADAPTER_NAME, empty=True), _show_same, _ENGINE_MAY_BE),
    "engine_settings": ProfileKey(
        *("engine_settings", _engine_settings, _show_engine_settings),
        "a section of the engine's own settings, such as fast=5,slow=20, or empty",
    ),
    "model": ProfileKey(
        "model", _text_matching(_MODEL_NAME, empty=True), _show_same, "the name of a model, without spaces, or empty"
    ),
    "members": ProfileKey(
        "members", _list_of(_MEMBER, 0, 20), _show_same, "engines, each once, such as trend or openai:MODEL"
    ),
    "broker": ProfileKey("broker", _text_matching(_ADAPTER_NAME), _show_same, "the name of a broker"),
    "mode": ProfileKey("mode", _one_of(get_args(TradingMode)), _show_same, "trade or dry_run"),
    "every_minutes": ProfileKey(
        "cadence_ms", _cadence, _show_in_units(MINUTE), "whole minutes from 1 to 1440, such as 5 (or 5m, 1h, 1d)"
    ),
    "strategy": ProfileKey(
        "strategy", _text, _show_same, "text in which every character is seen, or @FILE for the text of a file"
    ),
    "avoid": ProfileKey(
        "avoid", _rules, _show_same, f"up to {_MOST_RULES} rules, each one line of at most 240 characters"
    ),
    "manual": ProfileKey(
        "manual", _text, _show_same, "text in which every character is seen, or @FILE for the text of a file"
    ),
    "cash_usd": _usd_key("starting_cash_usd_e6", least=1),
    "margin": ProfileKey("margin", _one_of(get_args(MarginMode)), _show_same, "cross or isolated"),
    "horizon": ProfileKey("context.horizon", _one_of(tuple(HORIZONS)), _show_same, f"one of {', '.join(HORIZONS)}"),
    "bar_minutes": ProfileKey(
        "context.bar_minutes", _bar, _show_same, "whole minutes that divide a day, from 1 to 1440"
    ),
    "bar_count": ProfileKey("context.bar_count", _whole(2, 500), _show_same, "a whole number from 2 to 500"),
    "recent_trades_k": ProfileKey(
        "context.recent_trades_k",
        _whole(0, MOST_TRADES_SHOWN),
        _show_same,
        f"a whole number from 0 to {MOST_TRADES_SHOWN}",
    ),
    "predictions": ProfileKey(
        *("context.predictions", _subscription(SYMBOL_NAME), _show_subscription),
        f"own, none, or symbols whose prediction markets are shown, such as own,BTC: up to {_MOST_SUBJECTS}",
    ),
    "macro": ProfileKey(
        *("context.macro", _subscription(_MACRO_SUBJECT), _show_subscription),
        f"own, none, or subjects such as global/defi, chain/ethereum, stablecoin/1: up to {_MOST_SUBJECTS}",
    ),
    "memory": ProfileKey("context.memory", parse_memory, memory_setting_text, MEMORY_MAY_BE),
    "max_position_usd": _usd_key("caps.max_position_usd_e6", least=1),
    "max_account_usd": _usd_key("caps.max_account_usd_e6", least=1),
    "max_daily_loss_usd": _usd_key("caps.max_daily_loss_usd_e6", least=0.01),
    "min_notional_usd": _usd_key("caps.min_notional_usd_e6"),
    "max_leverage": ProfileKey("caps.max_leverage", _whole(1, 100), _show_same, "a whole number from 1 to 100"),
    "max_orders_per_hour": ProfileKey(
        "caps.max_orders_per_hour", _whole(0, 10_000), _show_same, "a whole number from 0 to 10000"
    ),
    "max_price_deviation_bps": ProfileKey(
        *("caps.max_price_deviation_ppm", _number(_PPM_OF_BPS, 0, 10_000), _show_in_units(_PPM_OF_BPS)),
        "a number of bps from 0 to 10000",
    ),
    "max_data_age_seconds": ProfileKey(
        "caps.max_data_age_ms",
        _number(SECOND, 1, 86_400),
        _show_in_units(SECOND),
        "a number of seconds from 1 to 86400",
    ),
    "cooldown_minutes": ProfileKey(
        "caps.cooldown_ms", _number(MINUTE, 0, 1440), _show_in_units(MINUTE), "a number of minutes from 0 to 1440"
    ),
    "max_model_usd_per_run": _usd_key("caps.max_model_usd_e6_per_run"),
    "max_model_usd_per_day": _usd_key("caps.max_model_usd_e6_per_day"),
    "reflection": ProfileKey(
        "reflection.cadence", _one_of(REFLECTION_CADENCES), _show_same, f"one of {', '.join(REFLECTION_CADENCES)}"
    ),
    "reflection_trades": ProfileKey(
        "reflection.every_n_trades", _whole(1, 1_000), _show_same, "a whole number from 1 to 1000"
    ),
    "reflector": ProfileKey(
        "reflection.reflector", _text_matching(_ADAPTER_NAME), _show_same, "the name of a reflector"
    ),
    "follow_lessons": ProfileKey(
        "reflection.follow", _follow_lessons, lambda value: value or "off", f"one of {', '.join(LESSONS_POLICIES)}"
    ),
    "skills": ProfileKey(
        "skills", _list_of(SKILL_NAME, 0, 20), _show_same, "names of skills, each once, of letters, digits, . _ or -"
    ),
    "experience": ProfileKey("experience.enabled", _switch, _show_same, "on or off"),
    "max_memory_size": ProfileKey(
        "experience.max_memory_size", _whole(1, 100_000), _show_same, "a whole number from 1 to 100000"
    ),
    "learning_rate": ProfileKey(
        *("experience.learning_rate_e4", _number(_RATE, 0.001, 1), _show_in_units(_RATE)), "a number from 0.001 to 1"
    ),
    "context_window": ProfileKey(
        "experience.context_window", _whole(1, 3_650), _show_same, "whole days from 1 to 3650"
    ),
    "neighbours": ProfileKey("experience.neighbours", _whole(5, 200), _show_same, "a whole number from 5 to 200"),
    "calibrated_sizing": ProfileKey(
        "experience.calibrated_sizing", lambda value: _switch(value) or msgspec.UNSET, bool, "on or off"
    ),
    "enabled": ProfileKey("enabled", _switch, _show_same, "on or off"),
}
KEY_ALIASES = {"trades": "recent_trades_k", "every": "every_minutes", "cash": "cash_usd"}
"""Names that are quicker to write."""
CONTEXT_KEYS = tuple(name for name, key in KEYS.items() if key.place.startswith("context."))


AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
LinePlace = Callable[[tuple[str, ...]], str]


def settings_from_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file. BadInput names the line."""
    text = _file_text(path)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}") from error
    return dict(_settings(found, lambda key: f"{path} line {_line_of(text, key)}: ", folder=path.parent))


def settings_from_mapping(words: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of flags, or of a program."""
    return dict(_settings(words, lambda key: "", folder=Path()))


def require_name(name: str) -> None:
    """Refuses what cannot be the name of an agent."""
    if not AGENT_NAME.fullmatch(name):
        raise BadInput(f"{_brief(name)} cannot be the name of an agent: use up to 40 letters, digits, . _ or -")


def apply_settings(profile: AgentProfile, settings: Mapping[str, Any]) -> AgentProfile:
    """The profile with what was written laid over it."""
    parts: dict[str, dict[str, Any]] = {"": {}, "caps": {}, "context": {}, "reflection": {}, "experience": {}}
    for name, value in settings.items():
        if name in KEYS:
            group, _, field = KEYS[name].place.rpartition(".")
            parts[group][field] = value
    context, shadow = _with_context(profile.context, parts["context"]), profile.shadow
    if "shadow" in settings:
        beside = settings["shadow"]
        shadow = None if beside is None else _with_context(context, beside)
    if shadow == context:
        raise BadInput("`shadow` is the same as the agent's own context: name at least one thing that differs")
    caps = msgspec.structs.replace(profile.caps, **parts["caps"])
    memory = {
        "reflection": msgspec.structs.replace(profile.reflection, **parts["reflection"]),
        "experience": msgspec.structs.replace(profile.experience, **parts["experience"]),
    }
    own = parts[""] | memory | {"caps": caps, "context": context, "shadow": shadow}
    return msgspec.structs.replace(profile, **own)


def profile_by_keys(profile: AgentProfile) -> dict[str, Any]:
    """A profile by the keys people write; `shadow` is null or a mapping of its own."""
    groups = {"": profile} | {name: getattr(profile, name) for name in ("caps", "context", "reflection", "experience")}
    view = {}
    for name, key in KEYS.items():
        group, _, field = key.place.rpartition(".")
        view[name] = key.show(getattr(groups[group], field))
    beside = profile.shadow
    shown = {} if beside is None else {name: KEYS[name].show(getattr(beside, _field(name))) for name in CONTEXT_KEYS}
    view["shadow"] = shown or None
    return view


def differences(before: AgentProfile, after: AgentProfile) -> list[dict[str, Any]]:
    """What changed, key by key."""
    old, new = profile_by_keys(before), profile_by_keys(after)
    return [{"key": key, "before": old[key], "after": new[key]} for key in new if old[key] != new[key]]


def _settings(found: Mapping[str, Any], place: LinePlace, *, folder: Path) -> Iterator[tuple[str, Any]]:
    for written, value in found.items():
        name = KEY_ALIASES.get(written, written)
        if name == "name":
            yield name, value
        elif name == "shadow":
            yield name, _shadow(value, place)
        elif name not in KEYS:
            raise BadInput(f"{place((written,))}unknown key {_unknown_key_hint(written, [*KEYS, 'shadow'])}")
        else:
            text = _named_text(value, folder) if name in ("strategy", "manual") else value
            yield name, _read_value(name, text, place((written,)))


def _shadow(value: Any, place: LinePlace) -> dict[str, Any] | None:
    """What the shadow sees differently; None for no shadow."""
    if value is None or value is False or value in ("", "off"):
        return None
    if isinstance(value, str):
        value = dict(_pair("shadow", part) for part in value.split(","))
    if not isinstance(value, dict):
        raise BadInput(f"{place(('shadow',))}`shadow` is a section of {', '.join(CONTEXT_KEYS)}, or off")
    changes = {}
    for written, each in value.items():
        name, at = KEY_ALIASES.get(written, written), place(("shadow", written))
        if name not in CONTEXT_KEYS:
            raise BadInput(f"{at}unknown key {_unknown_key_hint(written, list(CONTEXT_KEYS))} in shadow")
        changes[_field(name)] = _read_value(name, each, at)
    return changes


def _pair(key: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        example = "memory=off,trades=0" if key == "shadow" else "fast=5,slow=20"
        raise BadInput(f"{_brief(text)} of `{key}` has no value: write it like {example}")
    return name.strip(), value.strip()


def _read_value(name: str, value: Any, place: str) -> Any:
    key = KEYS[name]
    try:
        return key.read(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"{place}`{name}` is {_brief(value)} but must be {key.may_be}") from error


def _with_context(base: ContextProfile, changes: Mapping[str, Any]) -> ContextProfile:
    """A context profile with changes; a horizon brings its bars, unless they are written too."""
    if "horizon" in changes:
        minutes, count = HORIZONS[changes["horizon"]]
        changes = {"bar_minutes": minutes, "bar_count": count, **changes}
    return msgspec.structs.replace(base, **changes)


def _field(name: str) -> str:
    return KEYS[name].place.rpartition(".")[2]


def _named_text(value: Any, folder: Path) -> Any:
    """The text itself, or that of the file it names."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    return _file_text(folder / Path(value[1:]).expanduser())


def _file_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): name a file you may read") from error
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text: save it as UTF-8") from error


def _line_of(text: str, key: tuple[str, ...]) -> int:
    """The line where a key is written; a key of a section is looked for below its heading."""
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines) if re.match(rf"\s*\[\s*{re.escape(key[0])}\s*\]", line)), 0)
    written = re.compile(rf"""\s*["']?{re.escape(key[-1])}["']?\s*[=.]""")
    inside = re.compile(rf"""\s*["']?{re.escape(key[0])}["']?\s*[=.]""")
    found = (at for at, line in enumerate(lines[start:], start + 1) if written.match(line) or inside.match(line))
    return next(found, start + 1)


def _unknown_key_hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [*known, *KEY_ALIASES], 1)
    return f"`{name}`; " + (f"did you mean `{close[0]}`?" if close else f"choose one of: {', '.join(known)}")


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"
