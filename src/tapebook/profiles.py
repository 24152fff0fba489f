"""An agent's profile as people write it: keys with their units, from a TOML file, from flags or from a program.

1. `from_file` and `from_words` read what was written; `KEYS` says what each key may be and where it stands;
2. `changed` lays it over a profile;
3. `shown` says a profile with the same keys, `differences` what two of them do not share.

Whatever cannot be is one line that names the key, and in a file its line.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tapebook.domain.agent import HORIZONS, AgentProfile, ContextProfile
from tapebook.errors import BadInput
from tapebook.profile_keys import CONTEXT_KEYS, KEYS, SHORT

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
Place = Callable[[tuple[str, ...]], str]


def from_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file. BadInput names the line."""
    text = _file_text(path)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}") from error
    return dict(_settings(found, lambda key: f"{path} line {_line_of(text, key)}: ", folder=path.parent))


def from_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of flags, or of a program."""
    return dict(_settings(words, lambda key: "", folder=Path()))


def require_name(name: str) -> None:
    """Refuses what cannot be the name of an agent."""
    if not NAME.fullmatch(name):
        raise BadInput(f"{_brief(name)} cannot be the name of an agent: use up to 40 letters, digits, . _ or -")


def changed(profile: AgentProfile, settings: Mapping[str, Any]) -> AgentProfile:
    """The profile with what was written laid over it."""
    parts: dict[str, dict[str, Any]] = {"": {}, "caps": {}, "context": {}, "reflection": {}, "experience": {}}
    for name, value in settings.items():
        if name in KEYS:
            group, _, field = KEYS[name].place.rpartition(".")
            parts[group][field] = value
    context, shadow = _context(profile.context, parts["context"]), profile.shadow
    if "shadow" in settings:
        beside = settings["shadow"]
        shadow = None if beside is None else _context(context, beside)
    if shadow == context:
        raise BadInput("`shadow` is the same as the agent's own context: name at least one thing that differs")
    caps = msgspec.structs.replace(profile.caps, **parts["caps"])
    memory = {
        "reflection": msgspec.structs.replace(profile.reflection, **parts["reflection"]),
        "experience": msgspec.structs.replace(profile.experience, **parts["experience"]),
    }
    own = parts[""] | memory | {"caps": caps, "context": context, "shadow": shadow}
    return msgspec.structs.replace(profile, **own)


def shown(profile: AgentProfile) -> dict[str, Any]:
    """A profile by the keys people write; `shadow` is null or a mapping of its own."""
    groups = {"": profile} | {name: getattr(profile, name) for name in ("caps", "context", "reflection", "experience")}
    view = {}
    for name, key in KEYS.items():
        group, _, field = key.place.rpartition(".")
        view[name] = key.show(getattr(groups[group], field))
    beside = profile.shadow
    view["shadow"] = None if beside is None else {name: getattr(beside, _field(name)) for name in CONTEXT_KEYS}
    return view


def differences(before: AgentProfile, after: AgentProfile) -> list[dict[str, Any]]:
    """What changed, key by key."""
    old, new = shown(before), shown(after)
    return [{"key": key, "before": old[key], "after": new[key]} for key in new if old[key] != new[key]]


def _settings(found: Mapping[str, Any], place: Place, *, folder: Path) -> Iterator[tuple[str, Any]]:
    for written, value in found.items():
        name = SHORT.get(written, written)
        if name == "name":
            yield name, value
        elif name == "shadow":
            yield name, _shadow(value, place)
        elif name not in KEYS:
            raise BadInput(f"{place((written,))}unknown key {_unknown(written, [*KEYS, 'shadow'])}")
        else:
            text = _named_text(value, folder) if name in ("strategy", "manual") else value
            yield name, _read(name, text, place((written,)))


def _shadow(value: Any, place: Place) -> dict[str, Any] | None:
    """What the shadow sees differently; None for no shadow."""
    if value is None or value is False or value in ("", "off"):
        return None
    if isinstance(value, str):
        value = dict(_pair(part) for part in value.split(","))
    if not isinstance(value, dict):
        raise BadInput(f"{place(('shadow',))}`shadow` is a section of {', '.join(CONTEXT_KEYS)}, or off")
    changes = {}
    for written, each in value.items():
        name, at = SHORT.get(written, written), place(("shadow", written))
        if name not in CONTEXT_KEYS:
            raise BadInput(f"{at}unknown key {_unknown(written, list(CONTEXT_KEYS))} in shadow")
        changes[_field(name)] = _read(name, each, at)
    return changes


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"{_brief(text)} of `shadow` has no value: write it like memory=off,trades=0")
    return name.strip(), value.strip()


def _read(name: str, value: Any, place: str) -> Any:
    key = KEYS[name]
    try:
        return key.read(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"{place}`{name}` is {_brief(value)} but must be {key.may_be}") from error


def _context(base: ContextProfile, changes: Mapping[str, Any]) -> ContextProfile:
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


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [*known, *SHORT], 1)
    return f"`{name}`; " + (f"did you mean `{close[0]}`?" if close else f"choose one of: {', '.join(known)}")


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"
