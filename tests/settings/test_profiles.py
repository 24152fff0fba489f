"""Profiles as people write them: what is shown can be written again, and what cannot be is refused with its key."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from tapebook.domain.agent import (
    ACCOUNT_ROOMS,
    HORIZONS,
    REFLECTION_CADENCES,
    AgentProfile,
    ContextProfile,
    ExperienceSettings,
    ReflectionSettings,
    RiskCaps,
    context_for_horizon,
)
from tapebook.domain.text import sanitise
from tapebook.domain.units import E6, MINUTE
from tapebook.errors import BadInput
from tapebook.settings.profiles import (
    CONTEXT_KEYS,
    KEY_ALIASES,
    KEYS,
    apply_settings,
    differences,
    profile_by_keys,
    require_name,
    settings_from_file,
    settings_from_mapping,
)

BLANK = AgentProfile("a", (), context=context_for_horizon("intraday"))
DOCS = Path(__file__).parents[2] / "docs" / "agents.md"

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
symbols = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,6}", fullmatch=True)
texts = st.text(max_size=30).map(lambda text: sanitise(text).strip())
prose = texts.filter(lambda text: not text.startswith("@"))
usd = st.integers(E6, 10**9 * E6)
contexts = st.builds(
    ContextProfile,
    horizon=st.sampled_from(list(HORIZONS)),
    bar_minutes=st.sampled_from([1, 5, 15, 60, 1440]),
    bar_count=st.integers(2, 500),
    recent_trades_k=st.integers(0, 30),
    memory=st.sampled_from([True, False, ACCOUNT_ROOMS, ("trades", "lessons")]),
    predictions=st.sampled_from([UNSET, (), ("own", "BTC"), ("ETH",)]),
    macro=st.sampled_from([UNSET, (), ("own", "chain/ethereum"), ("global/defi", "stablecoin/1")]),
)
GROUPS = ("name", "caps", "context", "shadow", "reflection", "experience")
caps = st.builds(
    RiskCaps,
    max_position_usd_e6=usd,
    max_leverage=st.integers(1, 100),
    min_notional_usd_e6=st.integers(0, 10**9 * E6),
    max_data_age_ms=st.integers(1_000, 86_400_000),
    max_account_usd_e6=usd,
    max_daily_loss_usd_e6=usd,
    max_orders_per_hour=st.integers(0, 10_000),
    max_price_deviation_ppm=st.integers(0, 10**6),
    cooldown_ms=st.integers(0, 1440).map(lambda minutes: minutes * MINUTE),
    max_model_usd_e6_per_run=st.integers(0, E6),
    max_model_usd_e6_per_day=st.integers(0, E6),
)
profiles = st.builds(
    AgentProfile,
    name=st.just("a"),
    watchlist=st.lists(symbols, min_size=1, max_size=4, unique=True).map(tuple),
    engine=names | st.just(""),
    broker=names,
    cadence_ms=st.integers(1, 1440).map(lambda minutes: minutes * MINUTE),
    strategy=prose,
    avoid=st.lists(texts.filter(bool), max_size=3).map(tuple),
    caps=caps,
    context=contexts,
    starting_cash_usd_e6=usd,
    model=st.sampled_from(["", "gpt-6-luna"]),
    members=st.lists(names | names.map("{}:m-1".format), max_size=3, unique=True).map(tuple),
    margin=st.sampled_from(["cross", "isolated"]),
    manual=prose,
    enabled=st.booleans(),
    reflection=st.builds(ReflectionSettings, st.sampled_from(REFLECTION_CADENCES), st.integers(1, 1_000), names),
    experience=st.builds(
        ExperienceSettings,
        enabled=st.booleans(),
        max_memory_size=st.integers(1, 100_000),
        learning_rate_e4=st.integers(10, 10_000),
        context_window=st.integers(1, 3_650),
        neighbours=st.integers(5, 200),
        calibrated_sizing=st.sampled_from((True, UNSET)),
    ),
    skills=st.lists(names, max_size=3, unique=True).map(tuple),
    engine_settings=st.dictionaries(names, names | st.integers().map(str), max_size=3).map(
        lambda found: tuple(sorted(found.items())) or UNSET
    ),
)


@given(profiles, st.none() | contexts)
def test_what_is_shown_can_be_written_again(profile: AgentProfile, beside: ContextProfile | None) -> None:
    if beside != profile.context:
        profile = AgentProfile(
            **{name: getattr(profile, name) for name in profile.__struct_fields__} | {"shadow": beside}
        )
    again = apply_settings(BLANK, settings_from_mapping(profile_by_keys(profile)))
    assert again == profile
    assert differences(profile, again) == []


@given(profiles, profiles)
def test_differences_are_what_turns_one_into_the_other(before: AgentProfile, after: AgentProfile) -> None:
    found = differences(before, after)
    assert bool(found) == (before != after)
    # A horizon that is written brings its bars, so these are written with it.
    written = {change["key"]: change["after"] for change in found} | {
        key: profile_by_keys(after)[key] for key in CONTEXT_KEYS
    }
    assert apply_settings(before, settings_from_mapping(written)) == after


def test_every_field_of_a_profile_has_a_key() -> None:
    places = {key.place for key in KEYS.values()}
    fields = {name for name in AgentProfile.__struct_fields__ if name not in GROUPS}
    caps = {f"caps.{name}" for name in RiskCaps.__struct_fields__}
    reflection = {f"reflection.{name}" for name in ReflectionSettings.__struct_fields__}
    experience = {f"experience.{name}" for name in ExperienceSettings.__struct_fields__}
    context = {f"context.{name}" for name in ContextProfile.__struct_fields__}
    assert places == fields | caps | reflection | experience | context


def test_every_key_is_documented_and_no_other() -> None:
    keys, _ = DOCS.read_text("utf-8").split("## Fills of the past")
    rows = re.findall(r"^\| `([a-z_]+)` \|", keys, re.MULTILINE)
    assert sorted(rows) == sorted([*KEYS, "name", "shadow", *CONTEXT_KEYS])
    for short in KEY_ALIASES:
        assert f"`{short}`" in DOCS.read_text("utf-8")


def test_the_defaults_of_the_document_are_those_of_a_new_agent() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| `([^`]*)` \|", DOCS.read_text("utf-8"), re.MULTILINE))
    blank = profile_by_keys(BLANK)
    assert {key: json.dumps(blank[key]) for key in rows} == rows
    assert rows.keys() == KEYS.keys() - {"watch"}


def test_the_horizons_of_the_document_are_those_of_the_table() -> None:
    rows = re.findall(r"^\| (\w+) \| [^|]* \| (\d+) of ", DOCS.read_text("utf-8"), re.MULTILINE)
    assert [(name, int(count)) for name, count in rows] == [(name, count) for name, (_, count) in HORIZONS.items()]


def test_a_horizon_brings_its_bars_unless_they_are_written_too() -> None:
    swing = apply_settings(BLANK, settings_from_mapping({"horizon": "swing"})).context
    assert (swing.horizon, (swing.bar_minutes, swing.bar_count)) == ("swing", HORIZONS["swing"])
    mixed = apply_settings(BLANK, settings_from_mapping({"horizon": "swing", "bar_minutes": "60"})).context
    assert (mixed.bar_minutes, mixed.bar_count) == (60, HORIZONS["swing"][1])
    later = apply_settings(AgentProfile("a", (), context=mixed), settings_from_mapping({"trades": 3})).context
    assert (later.bar_minutes, later.recent_trades_k) == (60, 3)


def test_a_shadow_is_the_context_with_changes() -> None:
    with_one = apply_settings(
        BLANK, settings_from_mapping({"trades": 7, "shadow": "memory=off, trades=0,horizon=scalp"})
    )
    assert with_one.context == ContextProfile("intraday", *HORIZONS["intraday"], 7, True)
    assert with_one.shadow == ContextProfile("scalp", *HORIZONS["scalp"], 0, ACCOUNT_ROOMS)
    some = settings_from_mapping({"shadow": "memory=experience+lessons,trades=0"})
    assert apply_settings(BLANK, some).shadow == ContextProfile(
        "intraday", *HORIZONS["intraday"], 0, (*ACCOUNT_ROOMS, "lessons", "experience")
    )
    assert apply_settings(with_one, settings_from_mapping({"shadow": "off"})).shadow is None
    assert apply_settings(with_one, settings_from_mapping({"trades": 8})).shadow == with_one.shadow


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("every", "5m", 5 * MINUTE),
        ("every", "1h", 60 * MINUTE),
        ("every", "1d", 1440 * MINUTE),
        ("every_minutes", 15, 15 * MINUTE),
        ("cash", "2500.5", 2_500_500_000),
        ("watch", "BTC, ETH,xyz:GOLD", ("BTC", "ETH", "xyz:GOLD")),
        ("avoid", "never", ("never",)),
        ("avoid", ["", "a", " b "], ("a", "b")),
        ("strategy", "  a\r\nb  ", "a\nb"),
        ("engine", "", ""),
        ("enabled", "no", False),
    ],
)
def test_values_are_kept_in_our_units(key: str, value: Any, kept: Any) -> None:
    ((name, found),) = settings_from_mapping({key: value}).items()
    assert (name, found) == (KEY_ALIASES.get(key, key), kept)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("watch", value) for value in ("", [], "BTC,BTC", "B TC", ["a/b"], "x" * 41, 3, [1], [["a"]])),
        *(("engine", value) for value in ("Trend", "../trend", "a.b", 3, None)),
        *(("members", value) for value in ("trend,trend", "a b", ["x:"])),
        *(("every", value) for value in ("0", "0m", "5s", "2d", "-5m", "1.5", 1.5, True, "", "99999999m")),
        *(("max_position_usd", value) for value in ("abc", "nan", "inf", "-1", 0, "1e10", True, None, [1], "1e-9")),
        *(("max_leverage", value) for value in ("0", 101, "2.5", 2.5, True, "x", "1_0_1")),
        *(("bar_minutes", value) for value in (0, 7, 1441, "five")),
        *(("recent_trades_k", value) for value in (-1, 31, "many")),
        *(("margin", value) for value in ("both", True)),
        *(("memory", value) for value in ("maybe", 1)),
        *(("avoid", value) for value in ("a\nb", "x" * 241, ["a"] * 21, "\x1b[31m", 3, [3])),
        *(("strategy", value) for value in ("a\x00b", "\x1b[31m", "a\u2028b", 5)),
        *(("model", value) for value in ("two words", "\x7f")),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        settings_from_mapping({key: value})
    name = KEY_ALIASES.get(key, key)
    assert str(refused.value).startswith(f"`{name}` is ") and KEYS[name].may_be in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 250


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"max_postion_usd": 1}, "unknown key `max_postion_usd`; did you mean `max_position_usd`?"),
        ({"xyz": 1}, "unknown key `xyz`; choose one of: watch, "),
        ({"shadow": "memory"}, '"memory" of `shadow` has no value: write it like memory=off,trades=0'),
        ({"shadow": {"max_leverage": 3}}, "unknown key `max_leverage`; choose one of: horizon, "),
        ({"shadow": {"memory": "x"}}, '`memory` is "x" but must be on, off (without what was learned), none'),
        ({"shadow": [1]}, "`shadow` is a section of horizon, "),
    ],
)
def test_unknown_keys_and_wrong_shadows(written: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as refused:
        settings_from_mapping(written)
    assert str(refused.value).startswith(says)


def test_a_shadow_that_differs_in_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="`shadow` is the same as the agent's own context"):
        apply_settings(BLANK, settings_from_mapping({"shadow": "memory=on"}))


@pytest.mark.parametrize("name", ["btc-5m", "a", "A.b_c-9", "x" * 40])
def test_names_that_can_be(name: str) -> None:
    refused = []
    try:
        require_name(name)
    except BadInput as error:
        refused.append(error)
    assert refused == []


@pytest.mark.parametrize("name", ["", ".", "..", "-a", "a/b", "a b", "x" * 41, "a\n", "é", "a\x00", "a\\b"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of an agent") as refused:
        require_name(name)
    assert "\n" not in str(refused.value)


FILE = """\
# an agent
name = "mine"
watch = ["BTC", "ETH"]
every_minutes = 15
strategy = "@notes/plan.md"

[shadow]
memory = false
trades = 0
"""


def test_a_file_is_read_with_the_files_it_names(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_bytes(b"\xef\xbb\xbfBuy.\r\nSell.\r\n")
    (tmp_path / "agent.toml").write_text(FILE)
    found = settings_from_file(tmp_path / "agent.toml")
    profile = apply_settings(BLANK, found)
    assert found["name"] == "mine"
    assert (profile.watchlist, profile.cadence_ms, profile.strategy) == (("BTC", "ETH"), 15 * MINUTE, "Buy.\nSell.")
    assert profile.shadow is not None and (profile.shadow.memory, profile.shadow.recent_trades_k) == (ACCOUNT_ROOMS, 0)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("every_minutes = 15", "evry = 1", "line 4: unknown key `evry`; did you mean `every`?"),
        ("every_minutes = 15", "every_minutes = 0", "line 4: `every_minutes` is 0 but must be whole minutes"),
        ("memory = false", 'memory = "x"', 'line 8: `memory` is "x" but must be on, off'),
        ("memory = false", "max_leverage = 2", "line 8: unknown key `max_leverage`; choose one of: horizon,"),
        ("[shadow]", "[shadow", " is not TOML: "),
        ("@notes/plan.md", "@none.md", "none.md cannot be read (No such file or directory): name a file you may read"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, before: str, after: str, says: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_text("Buy.")
    (tmp_path / "agent.toml").write_text(FILE.replace(before, after))
    with pytest.raises(BadInput) as refused:
        settings_from_file(tmp_path / "agent.toml")
    assert says in str(refused.value) and str(tmp_path) in str(refused.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for content, says in ((None, "cannot be read (No such file"), (b"\xff\xfe", "is not UTF-8 text: save it as UTF-8")):
        if content is not None:
            (tmp_path / "agent.toml").write_bytes(content)
        with pytest.raises(BadInput) as refused:
            settings_from_file(tmp_path / "agent.toml")
        assert says in str(refused.value)


@pytest.mark.parametrize("key", ["strategy", "avoid", "manual"])
def test_text_with_characters_that_are_not_seen_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match="`" + key + "` is .* but must be "):
        settings_from_mapping({key: "buy\U000e0062\U000e0075 strength"})
