"""Reads the settings of a home, `tapebook.toml` and the environment, once, as frozen values.

1. `find_home` picks the folder: the one given, else TAPEBOOK_HOME, else `./home`.
2. `load_config` reads its tapebook.toml and lays the environment over it.
3. What is wrong is a `ConfigError` of one line that names the file, the line and the remedy.

Only this module reads the environment. `TEMPLATE` is the file `tapebook init` writes: every
setting with its default and a comment.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from tapebook import plug
from tapebook.domain.files import is_open_to_others
from tapebook.domain.order import FillRule
from tapebook.domain.text import REDACTED, has_hidden_characters, redact_passwords
from tapebook.errors import ConfigError, UnknownName

FILE = "tapebook.toml"
TEMPLATE = resources.files("tapebook.settings").joinpath(f"{FILE}.template").read_text("utf-8")

# The owner is part of every stream's name, `owner/deployment`; the log's hashes are taken over it.
_NAME = r"^(?!\s)[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029]{1,64}(?<!\s)\Z"
_PLACE = r"^(postgres(ql)?://[^\s]+|(?!\s|.*://)[^\x00-\x1f]+)\Z"

# What a setting may be, in words: a wrong value is answered with them.
Name = Annotated[str, Meta(pattern=_NAME, description="a name of 1 to 64 characters without slashes or line breaks")]
StorePlace = Annotated[str, Meta(pattern=_PLACE, description="the name of a file in the home, or postgresql://…")]
# Without a user or a password: the address of an archive is shown, and its keys stand in the environment.
ArchivePlace = Annotated[
    str,
    Meta(
        pattern=r"^([a-z][a-z0-9_]*://[^\s@\x00-\x1f]*|(?!.*://)[^\x00-\x1f]+)\Z",
        description="the name of a folder, or an address such as file:///srv/archive",
    ),
]
BackupPlace = Annotated[
    str,
    Meta(
        pattern=r"^([a-z][a-z0-9_]*://[^\s@\x00-\x1f]*|(?!.*://)[^\x00-\x1f]*)\Z",
        description="the name of a folder, an address such as s3://bucket/prefix, or empty",
    ),
]
KeptBackups = Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000")]
Switch = Annotated[bool, Meta(description="true or false")]
Milliseconds = Annotated[int, Meta(ge=0, le=3_600_000, description="a whole number from 0 to 3600000 (milliseconds)")]
Bps = Annotated[float, Meta(ge=0, lt=1000, description="a number from 0 to below 1000 (bps)")]
FillRuleSetting = Annotated[FillRule, Meta(description='"next_open", "bar_close" or "worst"')]
ReachBps = Annotated[float, Meta(ge=100, lt=10_000, description="a number from 100 to below 10000 (bps)")]
Minutes = Annotated[int, Meta(ge=1, le=43_200, description="a whole number from 1 to 43200 (minutes)")]
Leverage = Annotated[int, Meta(ge=1, le=50, description="a whole number from 1 to 50")]
SignedBps = Annotated[float, Meta(gt=-1000, lt=1000, description="a number above -1000 and below 1000 (bps)")]
Address = Annotated[
    str, Meta(pattern=r"^https?://[^\s/]+/?\Z", description="an address like https://api.hyperliquid.xyz")
]
Symbols = Annotated[tuple[str, ...], Meta(max_length=1000, description='a list of names, such as ["BTC", "ETH"]')]
Share = Annotated[float, Meta(ge=0.05, le=1, description="a number from 0.05 to 1")]
Hours = Annotated[float, Meta(gt=0, le=876_000, description="a number of hours above 0")]
WaitHours = Annotated[float, Meta(ge=0, le=720, description="a number from 0 to 720 (hours)")]
Days = Annotated[int, Meta(ge=1, le=36_500, description="a whole number of days from 1 to 36500")]
Factor = Annotated[float, Meta(gt=1, le=1000, description="a number above 1, up to 1000")]
Seconds = Annotated[float, Meta(ge=0.1, le=3600, description="a number of seconds from 0.1 to 3600")]
Attempts = Annotated[int, Meta(ge=1, le=10, description="a whole number from 1 to 10")]
Tokens = Annotated[int, Meta(ge=256, le=128_000, description="a whole number of tokens from 256 to 128000")]
Dollars = Annotated[float, Meta(ge=0, le=1000, description="a number of dollars from 0 to 1000")]
ModelName = Annotated[str, Meta(pattern=r"^[\x21-\x7e]{1,120}\Z", description="the name of a model, without blanks")]
# Without a user, a query or a fragment: an address is shown, and those may hold a secret.
ModelAddress = Annotated[
    str, Meta(pattern=r"^https?://[^\s@?#]+\Z", description="an address like https://api.openai.com/v1")
]
BarWait = Annotated[float, Meta(ge=0, le=50, description="a number of seconds from 0 to 50")]
Calls = Annotated[int, Meta(ge=1, le=2000, description="a whole number from 1 to 2000")]
LeaseSeconds = Annotated[float, Meta(ge=0.5, le=3600, description="a number of seconds from 0.5 to 3600")]
BatchSize = Annotated[int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000")]
EmbedderModel = Annotated[str, Meta(pattern=r"^[\x21-\x7e]{0,120}\Z", description="the name of a model, or empty")]
EmbedderAddress = Annotated[
    str, Meta(pattern=r"^(https?://[^\s@?#]+)?\Z", description="an address like http://127.0.0.1:11434/v1, or empty")
]
KindCap = Annotated[str, Meta(pattern=r"^[a-z]+:[1-9][0-9]{0,3}\Z")]
KindCaps = Annotated[tuple[KindCap, ...], Meta(description='a list of kinds with a number, such as ["transcript:2"]')]
SectorEntry = Annotated[str, Meta(pattern=r"^[^\s=]{1,40}=[^\s=][^=\n]{0,39}\Z")]
SectorEntries = Annotated[
    tuple[SectorEntry, ...], Meta(description='a list of symbols with their sector, such as ["BTC=Store of value"]')
]
Weight = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
PerDocument = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100")]
SlotName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\Z", description="the name of a search, in lower case")]
Adapter = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\Z", description="the name of an engine, in lower case")]
SourceNames = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\Z")], ...],
    Meta(min_length=1, max_length=50, description='a list of names of sources, such as ["hyperliquid"]'),
]


class StoreSettings(msgspec.Struct, frozen=True):
    """Where the book and the tape are."""

    book: StorePlace = "book.db"
    tape: StorePlace = "tape.db"


class ArchiveSettings(msgspec.Struct, frozen=True):
    """Where texts and old rows are kept."""

    place: ArchivePlace = "archive"
    spool: ArchivePlace = "spool"
    packets: Switch = True
    raw: Switch = False


class BackupSettings(msgspec.Struct, frozen=True):
    """Where backups go, how often one is made, and which are kept."""

    place: BackupPlace = ""
    every_minutes: Minutes = 60
    # A day of hourly ones to go back by hours, and a month of days.
    keep: KeptBackups = 24
    keep_days: KeptBackups = 30


class PaperSettings(msgspec.Struct, frozen=True):
    """What the paper broker charges and allows, and how late it is."""

    latency_ms: Milliseconds = 500
    # Hyperliquid's fees for perps in the lowest tier of volume.
    taker_fee_bps: Bps = 4.5
    maker_fee_bps: SignedBps = 1.5
    spread_bps: Bps = 2.0
    impact_bps: Bps = 2.0
    # Beyond 5 % no book that was recorded says anything; a paper order must end somewhere.
    max_impact_bps: ReachBps = 500.0
    limit_order_minutes: Minutes = 60
    liquidation_fee_bps: Bps = 50.0
    # Of coins that the margin tables do not know nothing is known: a cautious limit.
    default_max_leverage: Leverage = 5
    fill: FillRuleSetting = "next_open"
    lots: Switch = False


class HyperliquidFeedSettings(msgspec.Struct, frozen=True):
    """Where market data come from, and how much of it."""

    url: Address = "https://api.hyperliquid.xyz"
    symbols: Symbols = ()
    dexes: Symbols = ()
    spot: Switch = True
    # Of the exchange's rate limit for an address: other programs of its owner need some of it too.
    weight_share: Share = 0.6
    history_hours: Hours = 24
    book_change_factor: Factor = 2.0


class QuarantineSettings(msgspec.Struct, frozen=True):
    """When an observed price that jumps is believed."""

    # The largest move within a minute of recorded markets was 1.45 (decision 21).
    jump_factor: Factor = 1.5
    agree_seconds: Seconds = 15
    alone_seconds: Seconds = 90


class RetentionSettings(msgspec.Struct, frozen=True):
    """How long rows stay in the tape, and decisions in the book, before they move to the archive."""

    # Midpoints come every five seconds and are most of the tape; after half an hour bars say the same.
    mids_hours: Hours = 0.5
    candles_hours: Hours = 24
    hourly_candles_hours: Hours = 168
    features_hours: Hours = 168
    funding_hours: Hours = 8760
    cold_file_hours: WaitHours = 24
    runs_days: Days = 7


class EngineSettings(msgspec.Struct, frozen=True):
    """The engine of agents that name none."""

    default: Adapter = "hold"


class LlmSettings(msgspec.Struct, frozen=True):
    """Which models are asked, where, within which limits, and the price of one that is not in the price list."""

    anthropic_model: ModelName = "claude-sonnet-5-5"
    anthropic_url: ModelAddress = "https://api.anthropic.com"
    openai_model: ModelName = "gpt-6-sol"
    openai_url: ModelAddress = "https://api.openai.com/v1"
    attempts: Attempts = 3
    timeout_seconds: Seconds = 60
    total_seconds: Seconds = 150
    max_tokens: Tokens = 8000
    input_usd_per_mtok: Dollars = 5
    output_usd_per_mtok: Dollars = 25


class DeskSettings(msgspec.Struct, frozen=True):
    """How `tapebook up` shares the work, and how long a decision waits for its newest bar."""

    # A quiet minute is known to be quiet with the next midpoint, five seconds on, and a second to arrive (decision 14).
    bar_wait_seconds: BarWait = 6
    calls_in_flight: Calls = 200
    # A desk that died is taken over after this; a slow disk must not look like a death.
    lease_seconds: LeaseSeconds = 20
    batch: BatchSize = 50


class RecallSettings(msgspec.Struct, frozen=True):
    """How documents are searched, and how often they are looked at."""

    slot: SlotName = "hybrid_embeddings"
    embedder: SlotName = "wordllama"
    embedder_model: EmbedderModel = ""
    embedder_url: EmbedderAddress = ""
    lexical_weight: Weight = 0.5
    semantic_weight: Weight = 0.5
    minimum_likeness: Weight = 0.3
    # Of questions about other things the best place scored 0.21, of those about the documents 0.33 and more.
    minimum_score: Weight = 0.22
    per_document: PerDocument = 3
    # Trades and transcripts are many and alike: without a cap they would crowd out manuals and lessons.
    per_kind: KindCaps = ("trade:2", "transcript:1")
    sync_minutes: Minutes = 5


class HorizonSettings(msgspec.Struct, frozen=True):
    """What symbols count as in the layers, beside the table that is built in."""

    sectors: SectorEntries = ()


class Config(msgspec.Struct, frozen=True):
    """All settings of a home."""

    owner: Name = "local"
    sources: SourceNames = ("hyperliquid",)
    store: StoreSettings = StoreSettings()
    archive: ArchiveSettings = ArchiveSettings()
    backup: BackupSettings = BackupSettings()
    paper: PaperSettings = PaperSettings()
    engine: EngineSettings = EngineSettings()
    llm: LlmSettings = LlmSettings()
    desk: DeskSettings = DeskSettings()
    recall: RecallSettings = RecallSettings()
    horizons: HorizonSettings = HorizonSettings()
    hyperliquid: HyperliquidFeedSettings = HyperliquidFeedSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    retention: RetentionSettings = RetentionSettings()
    # The sections of sources that declare their settings themselves, by name; in the file they stand like any other.
    source_settings: dict[str, msgspec.Struct] = {}

    def source_section(self, name: str) -> msgspec.Struct | None:
        """The settings of a source; None of one that has none."""
        own: msgspec.Struct | None = getattr(self, name) if name in _SECTIONS else self.source_settings.get(name)
        return own


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    **{
        "store": StoreSettings,
        "archive": ArchiveSettings,
        "backup": BackupSettings,
        "paper": PaperSettings,
        "engine": EngineSettings,
        "llm": LlmSettings,
    },
    **{
        "desk": DeskSettings,
        "recall": RecallSettings,
        "horizons": HorizonSettings,
        "hyperliquid": HyperliquidFeedSettings,
        "quarantine": QuarantineSettings,
    },
    **{"retention": RetentionSettings},
}

# Where each provider of models has its key: in the environment and nowhere else.
MODEL_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
EMBEDDER_KEYS = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "voyage": "VOYAGE_API_KEY"}
# A key with a blank or a line break would end up in a header as something else.
_MODEL_KEY = re.compile(r"[\x21-\x7e]*")

# The name of a setting: its section, if it has one, and its key.
SettingKey = tuple[str, ...]


def find_home(given: str | None, environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the home: the one given, else TAPEBOOK_HOME, else `./home`."""
    if given is not None and not given.strip():
        raise ConfigError("the home's name is empty: name a folder, or leave `home=` away")
    named = given or _environment(environ).get("TAPEBOOK_HOME") or "home"
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"there is no user for {named!r}: write the home as a full path") from error


def load_config(home: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The settings of a home; the environment wins over the file."""
    text = _read(home / FILE)
    found = _parse(text)
    sections = dict(_source_sections(found, text))
    for key, says in _problems(found, _SECTIONS | sections):
        raise ConfigError(f"{FILE} line {_line_of(text, key)}: {says}")
    own = {name: msgspec.convert(found.pop(name, {}), kind) for name, kind in sections.items()}
    config = msgspec.structs.replace(msgspec.convert(found, Config), source_settings=own)
    return _overlay(_with_password(home, config), _environment(environ))


def _source_sections(found: dict[str, Any], text: str) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """The sections of sources that declare their settings themselves."""
    names = found.get("sources", ())
    # What is no list of names is named with all else that is wrong.
    for name in () if names and _objection(Config, "sources", names) else names:
        if name in _SECTIONS:
            continue
        try:
            settings: type[msgspec.Struct] | None = plug.load("tapebook.sources", name).SOURCE.settings
        except UnknownName as error:
            raise ConfigError(f"{FILE} line {_line_of(text, ('sources',))}: {error}") from error
        if settings is not None:
            yield name, settings


def _with_password(home: Path, config: Config) -> Config:
    """The settings of a backtest with the password of its tape, which stands in the home it was asked in alone."""
    tape = config.store.tape
    if "://" not in tape or REDACTED not in tape:
        return config
    parent = home.parent.parent
    above = _parse(_read(parent / FILE)).get("store", {}).get("tape", "")
    if redact_passwords(str(above)) != tape:
        raise ConfigError(f"`tape` in {home / FILE} is {tape}, which {parent / FILE} does not name: put it back there")
    return msgspec.structs.replace(config, store=msgspec.structs.replace(config.store, tape=above))


def as_toml(config: Config) -> str:
    """The settings as a file that `load` reads back."""
    fields = msgspec.to_builtins(config)
    own = fields.pop("source_settings")
    top = {name: value for name, value in fields.items() if name not in _SECTIONS}
    return _plain_toml(top | {name: fields[name] for name in _SECTIONS} | own)


def with_setting(text: str, key: SettingKey, value: str) -> str:
    """A settings file that says something else in one place, with all its comments."""
    section, name = key
    wanted = _parse(text)
    wanted.setdefault(section, {})[name] = value
    line = f"{name} = {_toml_value(value)}"
    lines = text.split("\n")
    headers = [number for number, each in enumerate(lines) if re.fullmatch(rf"\s*\[{section}\]\s*(#.*)?", each)]
    end = next((n for n, each in enumerate(lines) if headers and n > headers[0] and each.startswith("[")), len(lines))
    own = range(headers[0] + 1, end) if headers else range(0)
    known = [number for number in own if re.match(rf"\s*{name}\s*=", lines[number])]
    if known:
        lines[known[0]] = line
    elif headers:
        lines.insert(headers[0] + 1, line)
    else:
        lines += [f"[{section}]", line, ""]
    edited = "\n".join(lines)
    try:
        as_wanted = tomllib.loads(edited) == wanted
    except ValueError:
        as_wanted = False
    # There are ways to write a setting that are not found by lines; then its comments are lost, and nothing else.
    return edited if as_wanted else _plain_toml(wanted)


def _plain_toml(settings: dict[str, Any]) -> str:
    top = [f"{name} = {_toml_value(value)}" for name, value in settings.items() if not isinstance(value, dict)]
    sections = [
        "\n".join([f"[{name}]", *(f"{key} = {_toml_value(value)}" for key, value in section.items())])
        for name, section in settings.items()
        if isinstance(section, dict)
    ]
    return "\n\n".join(["\n".join(top), *sections]) + "\n"


def _toml_value(value: Any) -> str:
    # The two notations write these alike, save for characters beyond the first plane.
    return json.dumps(value, ensure_ascii=False)


def model_keys(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The key of each provider of models, empty where none is set; apart from the settings, which may be shown."""
    return _keys_from_environment(MODEL_KEYS, environ)


def embedder_keys(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings of embedders that ask a server."""
    return _keys_from_environment(EMBEDDER_KEYS, environ)


def _keys_from_environment(variables: Mapping[str, str], environ: Mapping[str, str] | None) -> dict[str, str]:
    keys = {}
    for provider, variable in variables.items():
        keys[provider] = _secret(variable, _environment(environ))
        if not _MODEL_KEY.fullmatch(keys[provider]):
            raise ConfigError(f"{variable} in the environment has characters that no key has: copy it again")
    return keys


def _secret(variable: str, environ: Mapping[str, str]) -> str:
    """A key from the environment, or from a private file that it names; ConfigError for one that others may read."""
    found, named = environ.get(variable, "").strip(), environ.get(f"{variable}_FILE", "").strip()
    if found or not named:
        return found
    if is_open_to_others(named):
        raise ConfigError(f"{named}, which {variable}_FILE names, can be read by others: run `chmod 600 {named}`")
    return _read_secret(Path(named), variable)


def _read_secret(path: Path, variable: str) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"{path}, which {variable}_FILE names, cannot be read: {why}") from None


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def _overlay(config: Config, environ: Mapping[str, str]) -> Config:
    """What the environment overrides; a variable that is set but empty counts as not set."""
    engine = environ.get("DECISION_MODEL_PROVIDER", "").strip()
    if not engine:
        return config
    if wrong := _objection(EngineSettings, "default", engine):
        raise ConfigError(f"DECISION_MODEL_PROVIDER in the environment {wrong}")
    return msgspec.structs.replace(config, engine=EngineSettings(default=engine))


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {path}: run `tapebook init --home {path.parent}` first") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): it must be a file you may read") from error
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{FILE} line {line}: not UTF-8 text; save the file as UTF-8") from error


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        line = _statements(text)[-1][0]
        reason = str(error).replace(f"at line {line}, ", "at ")
        remedy = "write `key = value`, text in double quotes, each key and [section] once"
        raise ConfigError(f"{FILE} line {line}: {reason}; {remedy}") from error


# A line that says nothing, between statements.
_IDLE = re.compile(r"[ \t]*(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?")


def _statements(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Each statement's first line, and all the file says up to its end; one that never ends comes last, saying nothing.

    Found by parsing ever longer beginnings of the file: slower than scanning it, but right for
    every way TOML has of writing a key, and done only when something is wrong.
    """
    lines = text.split("\n")
    statements: list[tuple[int, dict[str, Any]]] = []
    start = 1
    for number, line in enumerate(lines, start=1):
        if start == number and _IDLE.fullmatch(line):
            start += 1
            continue
        try:
            statements.append((start, tomllib.loads("\n".join(lines[:number]))))
        except ValueError:
            continue
        start = number + 1
    return statements if start > len(lines) else [*statements, (start, {})]


def _line_of(text: str, key: SettingKey) -> int:
    """The line on which a key or section of a readable file begins."""
    return next(line for line, statement in _statements(text) if _has_key(statement, key))


def _has_key(statement: Any, key: SettingKey) -> bool:
    if not key:
        return True
    return isinstance(statement, dict) and key[0] in statement and _has_key(statement[key[0]], key[1:])


def _problems(found: dict[str, Any], sections: Mapping[str, type[msgspec.Struct]]) -> Iterator[tuple[SettingKey, str]]:
    """What is wrong, in the order of the file: where, and words that say the remedy."""
    for name, value in found.items():
        if name in sections and isinstance(value, dict):
            for key, setting in value.items():
                yield from _problems_of(sections[name], (name, key), setting)
        elif name in sections:
            yield (name,), f"`{name}` is a section: write [{name}] on a line of its own and its keys below"
        elif name == "source_settings" or (isinstance(value, dict) and name not in Config.__struct_fields__):
            yield (name,), f"unknown section [{_printable_name(name)}]; {_suggestion(name, list(sections), '[{}]')}"
        else:
            yield from _problems_of(Config, (name,), value)
    yield from _shared_file(found.get("store", {}))


def _problems_of(kind: type[msgspec.Struct], key: SettingKey, value: Any) -> Iterator[tuple[SettingKey, str]]:
    name, place = key[-1], f" in [{key[0]}]" if len(key) > 1 else ""
    if name not in kind.__struct_fields__:
        known = [field for field in kind.__struct_fields__ if field not in (*_SECTIONS, "source_settings")]
        yield key, f"unknown key `{_printable_name(name)}`{place}; {_home_of(name) or _suggestion(name, known, '`{}`')}"
    elif wrong := _objection(kind, name, value):
        yield key, f"`{name}`{place} {wrong}, for example {name} = {_printable_value(getattr(kind(), name))}"


def _shared_file(store: dict[str, Any]) -> Iterator[tuple[SettingKey, str]]:
    """The book and the tape have a writer each, so they cannot be one SQLite file."""
    book, tape = (os.path.normpath(store.get(name, getattr(StoreSettings(), name))) for name in ("book", "tape"))
    if book == tape and "://" not in store.get("book", ""):
        last = list(store)[-1]
        yield ("store", last), f"`book` and `tape` in [store] are one file, {_printable_value(book)}; give each its own"


def _objection(kind: type[msgspec.Struct], name: str, value: Any) -> str:
    """Why a setting cannot have a value; empty when it can."""
    try:
        # Types are looked up for what is refused alone: that takes as long as all else that is done with a file.
        msgspec.convert({name: value}, kind)
        return ""
    except msgspec.ValidationError:
        allowed = get_type_hints(kind, include_extras=True)[name]
    try:
        msgspec.convert(value, allowed)
    except msgspec.ValidationError as error:
        # A source from elsewhere may not say in words what its settings may be.
        words = getattr(allowed, "__metadata__", None)
        return f"is {_printable_value(value)} but must be {words[0].description}" if words else f"cannot be: {error}"
    return ""


def _home_of(name: str) -> str:
    """Where a key belongs that stands in the wrong section; empty when it belongs nowhere."""
    if name in ("owner", "sources"):
        return "it belongs at the top, above the first section"
    sections = [section for section, kind in _SECTIONS.items() if name in kind.__struct_fields__]
    return f"it belongs in [{sections[0]}]" if sections else ""


def _suggestion(name: str, known: list[str], style: str) -> str:
    close = difflib.get_close_matches(name.lower(), known, 1)
    if close:
        return f"did you mean {style.format(close[0])}?"
    return f"choose one of: {', '.join(map(style.format, known))}"


def _printable_name(name: str) -> str:
    return json.dumps(name) if has_hidden_characters(name) else name


def _printable_value(value: Any) -> str:
    """A value as the file writes it: on one line, not too long, and without the password a URL may hold."""
    if isinstance(value, dict | list):
        return "a section" if isinstance(value, dict) else "a list"
    if isinstance(value, tuple):
        return json.dumps(value)
    text = json.dumps(value) if isinstance(value, str | bool) else str(value)
    text = redact_passwords(text)
    return text if len(text) <= 60 else f"{text[:59]}…"
