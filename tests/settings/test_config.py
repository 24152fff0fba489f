"""Settings: the template is the defaults, and whatever is wrong in the file is named with its line and a remedy."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.errors import ConfigError
from tapebook.settings.config import (
    FILE,
    TEMPLATE,
    ArchiveSettings,
    BackupSettings,
    Config,
    DeskSettings,
    EngineSettings,
    HorizonSettings,
    HyperliquidFeedSettings,
    LlmSettings,
    PaperSettings,
    QuarantineSettings,
    RecallSettings,
    RetentionSettings,
    StoreSettings,
    find_home,
    load_config,
    model_keys,
    with_setting,
)
from tests.matrix import covering

LINES = TEMPLATE.split("\n")
SECTIONS = {
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


def settings() -> list[tuple[str, str, int]]:
    """Every setting of the template: section, key, and the line it is on, read off the text."""
    found, section = [], ""
    for number, line in enumerate(LINES, 1):
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header.group(1)
        elif key := re.match(r"(\w+) = ", line):
            found.append((section, key.group(1), number))
    return found


SETTINGS = settings()
BROKEN = ["{key}", "{key} =", "{key} = [", '{key} = "', '{key} = """', "{key} = yes", "= 1"]


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str], str]:
    """`refused(text)` loads a file with that text and gives the error, which must be one line."""

    def load_it(text: str) -> str:
        (tmp_path / FILE).write_bytes(text.encode())
        with pytest.raises(ConfigError) as caught:
            load_config(tmp_path, {})
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return load_it


def loaded(home: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    """What a file with that text means."""
    (home / FILE).write_text(text, "utf-8")
    return load_config(home, environ or {})


def with_line(number: int, line: str) -> str:
    """The template with one line replaced."""
    return "\n".join([*LINES[: number - 1], line, *LINES[number:]])


def test_template_is_the_defaults(tmp_path: Path) -> None:
    assert loaded(tmp_path, TEMPLATE) == loaded(tmp_path, "") == Config()


def test_template_says_every_default_itself() -> None:
    assert tomllib.loads(TEMPLATE) | {"source_settings": {}} == msgspec.json.decode(msgspec.json.encode(Config()))


def test_template_has_every_setting_with_a_comment_above_it() -> None:
    fields = [
        ("", "owner"),
        ("", "sources"),
        *((name, key) for name, kind in SECTIONS.items() for key in kind.__struct_fields__),
    ]
    assert [(section, key) for section, key, _ in SETTINGS] == fields
    assert [LINES[number - 1] for _, _, number in SETTINGS if not LINES[number - 2].startswith("# ")] == []


def test_template_names_the_unit_of_every_number() -> None:
    units = {"_ms": "Milliseconds", "_bps": "bps"}
    numbers = [(key, LINES[number - 2]) for _, key, number in SETTINGS if key.endswith(tuple(units))]
    assert len(numbers) == 7
    assert [key for key, comment in numbers if units["_" + key.rpartition("_")[2]] not in comment] == []


@pytest.mark.parametrize(
    ("section", "key", "line", "wrong"), covering(SETTINGS, ["[[]]", "{}", "1979-05-27", "07:32:00"])
)
def test_wrong_type_is_named_with_its_line(
    refused: Callable[[str], str], *, section: str, key: str, line: int, wrong: str
) -> None:
    said = refused(with_line(line, f"{key} = {wrong}"))
    place = f" in [{section}]" if section else ""
    assert said.startswith(f"tapebook.toml line {line}: `{key}`{place} is ")
    assert said.endswith(f", for example {LINES[line - 1]}")


@pytest.mark.parametrize(("section", "key", "line"), SETTINGS)
def test_misspelt_key_is_named_with_its_line_and_the_right_one(
    refused: Callable[[str], str], section: str, key: str, line: int
) -> None:
    place = f" in [{section}]" if section else ""
    for misspelt in (key[:-2] + key[-1], f"{key}s", key.upper()):
        said = refused(with_line(line, LINES[line - 1].replace(key, misspelt)))
        assert said == f"tapebook.toml line {line}: unknown key `{misspelt}`{place}; did you mean `{key}`?"


@pytest.mark.parametrize(("section", "key", "line", "broken"), covering(SETTINGS, BROKEN))
def test_broken_syntax_is_named_with_its_line(
    refused: Callable[[str], str], *, section: str, key: str, line: int, broken: str
) -> None:
    assert refused(with_line(line, broken.format(key=key))).startswith(f"tapebook.toml line {line}: ")


@pytest.mark.parametrize(("section", "key", "line"), SETTINGS)
def test_doubled_key_is_named_with_its_second_line(
    refused: Callable[[str], str], section: str, key: str, line: int
) -> None:
    doubled = refused(with_line(line, f"{LINES[line - 1]}\n{LINES[line - 1]}"))
    assert doubled.startswith(f"tapebook.toml line {line + 1}: Cannot overwrite a value")


@pytest.mark.parametrize("section", SECTIONS)
def test_misspelt_section_is_named_with_its_line(refused: Callable[[str], str], section: str) -> None:
    line = LINES.index(f"[{section}]") + 1
    said = refused(with_line(line, f"[{section}x]"))
    assert said == f"tapebook.toml line {line}: unknown section [{section}x]; did you mean [{section}]?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[paper]\nlatency_ms = -1", "line 2: `latency_ms` in [paper] is -1 but must be a whole number from 0"),
        ("[paper]\nlatency_ms = 500.0", "line 2: `latency_ms` in [paper] is 500.0 but"),
        ("[paper]\nlatency_ms = true", "line 2: `latency_ms` in [paper] is true but"),
        ("[paper]\nlatency_ms = 9999999999999999999999", "line 2: `latency_ms`"),
        ("[paper]\n\ntaker_fee_bps = 1000", "line 3: `taker_fee_bps` in [paper] is 1000 but must be a number from 0"),
        ("[paper]\ntaker_fee_bps = -0.1", "line 2: `taker_fee_bps` in [paper] is -0.1 but"),
        ("[paper]\nmaker_fee_bps = -1000", "line 2: `maker_fee_bps` in [paper] is -1000 but"),
        ("[paper]\nspread_bps = nan", "line 2: `spread_bps` in [paper] is nan but"),
        ("[paper]\nspread_bps = inf", "line 2: `spread_bps` in [paper] is inf but"),
        ("[paper]\nspread_bps = '2'", 'line 2: `spread_bps` in [paper] is "2" but'),
        ("[archive]\npackets = 1", "line 2: `packets` in [archive] is 1 but must be true or false"),
        ('owner = ""', 'line 1: `owner` is "" but must be a name of 1 to 64 characters'),
        ('owner = "a/b"', 'line 1: `owner` is "a/b" but'),
        ('owner = "a\\\\b"', 'line 1: `owner` is "a\\\\b" but'),
        ('\nowner = "a\\nb"', 'line 2: `owner` is "a\\nb" but'),
        ('owner = "a\\n"', 'line 1: `owner` is "a\\n" but'),
        ('owner = "a\\u2028b"', 'line 1: `owner` is "a\\u2028b" but'),
        ('owner = " a"', 'line 1: `owner` is " a" but'),
        ('[engine]\ndefault = "../x"', "line 2: `default` in [engine]"),
        ('[store]\nbook = ""', 'line 2: `book` in [store] is "" but must be the name of a file'),
        ('[store]\nbook = "mysql://h/db"', "line 2: `book` in [store]"),
        ('[store]\n# one\ntape = "./book.db"', "line 3: `book` and `tape` in [store] are one file"),
        ('[store]\nbook = "x"\ntape = "x"', "line 3: `book` and `tape` in [store] are one file"),
    ],
)
def test_value_out_of_range_is_refused(refused: Callable[[str], str], text: str, says: str) -> None:
    assert refused(text).startswith(f"tapebook.toml {says}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("latency_ms = 5", "line 1: unknown key `latency_ms`; it belongs in [paper]"),
        ("[archive]\nlatency_ms = 5", "line 2: unknown key `latency_ms` in [archive]; it belongs in [paper]"),
        ('[engine]\nowner = "x"', "line 2: unknown key `owner` in [engine]; it belongs at the top"),
        ("[archive]\nzzz = 5", "line 2: unknown key `zzz` in [archive]; choose one of: `place`, `spool`, `packets`"),
        ("[zzz]", "line 1: unknown section [zzz]; choose one of: [store], [archive], [backup], [paper]"),
        ("[paper.fees]\ntaker = 1", "line 1: unknown key `fees` in [paper]"),
        ("\npaper = 5", "line 2: `paper` is a section: write [paper] on a line of its own"),
        ("[[paper]]", "line 1: `paper` is a section"),
        ("[owner]", "line 1: `owner` is a section but must be a name"),
        ("\n\npaper = { latency_ms = -1 }", "line 3: `latency_ms` in [paper]"),
        ("\npaper.latency_ms = -1", "line 2: `latency_ms` in [paper]"),
        ('# latency_ms = 1\n["paper"]\n"latency_ms" = -1', "line 3: `latency_ms` in [paper]"),
        ("[paper]\nlatency_ms = '''\n-1\n'''\nspread_bps = 1", "line 2: `latency_ms` in [paper]"),
        ("owner = '''x\n[paper]\nlatency_ms = 1'''", "line 1: `owner`"),
        ('"a\\nb" = 1', 'line 1: unknown key `"a\\nb"`'),
        ("owner = 'x'\r\n\r\n[paper]\r\nlatency_ms = -1\r\n", "line 4: `latency_ms` in [paper]"),
        (f"owner = {'9' * 5000}", "line 1: "),
    ],
)
def test_every_way_of_writing_a_key_has_its_line(refused: Callable[[str], str], text: str, says: str) -> None:
    assert refused(text).startswith(f"tapebook.toml {says}")


def test_password_is_not_shown(refused: Callable[[str], str]) -> None:
    said = refused('[store]\nbook = "postgresql://me:secret word@host/db"')
    assert "secret" not in said and "postgresql://…@host/db" in said


def test_long_value_is_shortened(refused: Callable[[str], str]) -> None:
    assert len(refused(f'owner = "{"x" * 10_000}"')) < 250


@given(text=st.text(alphabet="ab[]{}\"'=.#\n\r\\ 0_paperlatency_ms", max_size=60))
def test_any_text_is_settings_or_one_line_with_a_place(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.getbasetemp()
    (home / FILE).write_bytes(text.encode())
    try:
        load_config(home, {})
    except ConfigError as error:
        line = re.fullmatch(r"tapebook\.toml line (\d+): [^\n\r]+", str(error))
        assert line and 1 <= int(line.group(1)) <= text.count("\n") + 1


def test_settings_are_read(tmp_path: Path) -> None:
    url = "postgresql://h/db"
    text = f'owner = "desk one"\n[store]\nbook = "{url}"\ntape = "{url}"\n[paper]\ntaker_fee_bps = 3'
    assert loaded(tmp_path, text) == Config(
        "desk one", store=StoreSettings(url, url), paper=PaperSettings(taker_fee_bps=3.0)
    )


def test_rebate_is_allowed_to_makers_only(tmp_path: Path, refused: Callable[[str], str]) -> None:
    assert loaded(tmp_path, "[paper]\nmaker_fee_bps = -0.2").paper.maker_fee_bps == -0.2
    assert "taker_fee_bps" in refused("[paper]\ntaker_fee_bps = -0.2")


def test_settings_cannot_change_once_read() -> None:
    with pytest.raises(AttributeError):
        Config().owner = "x"  # type: ignore[misc]


def test_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    assert loaded(tmp_path, '\ufeffowner = "x"').owner == "x"


def test_other_encodings_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'# one\nowner = "\xfcber"\n')
    with pytest.raises(ConfigError, match=r"tapebook\.toml line 2: not UTF-8 text; save the file as UTF-8"):
        load_config(tmp_path, {})


def test_missing_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no .*tapebook\.toml: run `tapebook init --home .*` first"):
        load_config(tmp_path, {})


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, {})


def test_environment_names_the_engine(tmp_path: Path) -> None:
    text = '[engine]\ndefault = "trend"'
    assert loaded(tmp_path, text, {"DECISION_MODEL_PROVIDER": "anthropic"}).engine.default == "anthropic"
    assert loaded(tmp_path, text, {"DECISION_MODEL_PROVIDER": " "}).engine.default == "trend"
    with pytest.raises(ConfigError, match='DECISION_MODEL_PROVIDER in the environment is "a b" but must be the name'):
        loaded(tmp_path, text, {"DECISION_MODEL_PROVIDER": "a b"})


def test_model_keys_come_from_the_environment_alone(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": " sk-one\n", "DECISION_MODEL_PROVIDER": "anthropic"}
    assert model_keys(environ) == {"anthropic": "sk-one", "openai": ""}
    assert "sk-one" not in repr(loaded(tmp_path, "", environ))


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY in the environment has characters") as caught:
        model_keys({"OPENAI_API_KEY": "sk-“secret”"})
    assert "secret" not in str(caught.value)


def test_the_address_of_a_model_holds_no_secret(refused: Callable[[str], str]) -> None:
    for url in ("http://me:secret@host/v1", "https://host/v1?key=secret"):
        assert "must be an address like" in refused(f'[llm]\nopenai_url = "{url}"')


def test_the_process_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECISION_MODEL_PROVIDER", "carry")
    monkeypatch.setenv("TAPEBOOK_HOME", str(tmp_path))
    (tmp_path / FILE).write_text(TEMPLATE)
    assert load_config(find_home(None)).engine.default == "carry"


def test_home_is_the_one_given_else_the_environments_else_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/users/me")
    assert find_home("a", {"TAPEBOOK_HOME": "b"}) == Path("a")
    assert find_home(None, {"TAPEBOOK_HOME": "b"}) == Path("b")
    assert find_home(None, {"TAPEBOOK_HOME": ""}) == Path("home")
    assert find_home(None, {}) == Path("home")
    assert find_home("~/x", {}) == Path("/users/me/x")


@pytest.mark.parametrize(("given_name", "says"), [("", "empty"), (" ", "empty"), ("~nobody-of-this-name/x", "no user")])
def test_impossible_home_is_refused(given_name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        find_home(given_name, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEMPLATE,
        "[store]\n# where\nbook = 'x.db' # here\ntape = 'y.db'\n",
        "[store]\n",
        "store = { book = 'x.db' }\n",
        "store.book = 'x.db'\n",
        '["store"]\n"book" = "x.db"\n',
        'owner = """a\n[store]\nbook = 1"""\n[store]\nbook = \'x.db\'\n',
        '[store]\nbook = """x\n.db"""\n',
    ],
)
@pytest.mark.parametrize("value", ["book.db", 'quo"ted\\', "postgresql://a:b@c/d", "Zürich"])
def test_one_setting_is_changed_and_no_other(text: str, value: str) -> None:
    wanted = tomllib.loads(text)
    wanted.setdefault("store", {})["book"] = value
    edited = with_setting(text, ("store", "book"), value)
    assert tomllib.loads(edited) == wanted
    if text == TEMPLATE:
        changed = [new for old, new in zip(text.split("\n"), edited.split("\n"), strict=True) if old != new]
        assert len(changed) <= 1, "comments stay"


def test_a_key_may_be_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("sk-pl4nted\n")
    path.chmod(0o600)
    environ = {"OPENAI_API_KEY_FILE": str(path)}
    assert model_keys(environ) == {"anthropic": "", "openai": "sk-pl4nted"}
    assert model_keys(environ | {"OPENAI_API_KEY": "sk-other"})["openai"] == "sk-other", "the variable itself wins"
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600") as refused:
        model_keys(environ)
    assert "pl4nted" not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        model_keys({"OPENAI_API_KEY_FILE": str(tmp_path / "none")})
    path.chmod(0o600)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="it is no text"):
        model_keys(environ)
