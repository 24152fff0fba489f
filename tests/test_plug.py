"""The name in the config is the module, of the package or of an entry point of another."""

import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest

import tapebook
from tapebook import plug
from tapebook.errors import ConfigError, PluginError, UnknownName
from tapebook.settings.config import FILE
from tests.backtest.bars import bars, fill_tape, make_home
from tests.packages import EXAMPLE, install, install_example

ENTRIES = {"tapebook.indexes": {"foreign": "more_adapters", "trend": "more_adapters"}}
FOLDERS = {
    **{"engines": "tapebook.decision.engines", "reflectors": "tapebook.lessons.reflectors"},
    **{"indexes": "tapebook.search.indexes", "embedders": "tapebook.search.embedders"},
    **{"brokers": "tapebook.broker.brokers", "archives": "tapebook.archive.archives"},
    **{"exporters": "tapebook.history.exporters", "models": "tapebook.llm.models", "sources": "tapebook.sources"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with three adapters, one of them a folder itself."""
    indexes = tmp_path / "plugged" / "indexes"
    (indexes / "deep").mkdir(parents=True)
    for name in ("../__init__", "__init__", "trend", "hold", "deep/__init__", "deep/inner"):
        (indexes / f"{name}.py").write_text(f"NAME = {name!r}\n")
    (indexes / "notes.txt").touch()
    for name in [name for name in sys.modules if name.startswith("plugged")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "more_adapters", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return "plugged.indexes"


def test_folder_lists_its_adapters_in_order(folder: str) -> None:
    assert plug.names(folder) == ["deep", "hold", "trend"]


def test_name_loads_the_module(folder: str) -> None:
    assert plug.load(folder, "trend").NAME == "trend"


@pytest.mark.parametrize("name", ["trand", "", "deep.inner", "../trend", "os", "Trend"])
def test_unknown_name_is_refused_with_those_that_exist(folder: str, name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        plug.load(folder, name)
    assert str(caught.value) == f"there is no {name!r} among the indexes; choose one of: deep, hold, trend"


def test_new_file_is_found_without_a_registry(folder: str, tmp_path: Path) -> None:
    plug.names(folder)
    (tmp_path / "plugged" / "indexes" / "fresh.py").write_text("NAME = 'fresh'\n")
    importlib.invalidate_caches()
    assert "fresh" in plug.names(folder)
    assert plug.load(folder, "fresh").NAME == "fresh"


def test_an_entry_point_of_another_package_is_found_by_its_name(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = install(tmp_path / "site", monkeypatch, name="more", version="1", entries=ENTRIES)
    (place / "more_adapters.py").write_text("NAME = 'foreign'\ndef create(): ...\n")
    assert plug.names(folder) == ["deep", "foreign", "hold", "trend"]
    assert plug.load(folder, "foreign").NAME == "foreign"
    # What stands in the folder is never replaced by what somebody installs.
    assert plug.load(folder, "trend").NAME == "trend"
    with pytest.raises(UnknownName, match="choose one of: deep, foreign, hold, trend"):
        plug.load(folder, "nobody")


def test_the_page_names_every_folder_and_the_example() -> None:
    page = (EXAMPLE.parent.parent / "docs" / "add-a-plugin.md").read_text("utf-8")
    assert dict(re.findall(r"^\| `tapebook\.([a-z]+)` \| `([a-z.]+)` \|", page, re.MULTILINE)) == FOLDERS
    for entry in ('[project.entry-points."tapebook.engines"]', 'contrarian = "tapebook_contrarian.engine"'):
        assert entry in page and entry in (EXAMPLE / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("kinds", sorted(FOLDERS))
def test_every_folder_has_a_group_of_entry_points(kinds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {f"tapebook.{kinds}": {"foreign": f"more_{kinds}"}}
    place = install(tmp_path, monkeypatch, name="more", version="1", entries=entries)
    (place / f"more_{kinds}.py").write_text("def create(): ...\n")
    assert plug.load(FOLDERS[kinds], "foreign").__name__ == f"more_{kinds}"
    assert "foreign" in plug.names(FOLDERS[kinds])


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("import nowhere", "cannot be loaded (ModuleNotFoundError: No module named 'nowhere')"),
        ("def create(:", "cannot be loaded (SyntaxError: invalid syntax (more_adapters.py, line 1))"),
        ("raise RuntimeError('two\\nlines')", "cannot be loaded (RuntimeError: two lines)"),
        ("NAME = 'foreign'", "is no module with a function `create`"),
        (None, "cannot be loaded (ModuleNotFoundError: No module named 'more_adapters')"),
    ],
)
def test_a_broken_entry_point_is_one_line_that_names_the_package(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str | None, says: str
) -> None:
    place = install(tmp_path / "site", monkeypatch, name="more", version="1.0", entries=ENTRIES)
    if module is not None:
        (place / "more_adapters.py").write_text(module)
    with pytest.raises(PluginError) as caught:
        plug.load(folder, "foreign")
    place_of_entry = "more 1.0 is broken: its entry point foreign = 'more_adapters' in tapebook.indexes"
    assert str(caught.value) == f"{place_of_entry} {says}; correct that package, or uninstall it"


def test_a_name_in_two_packages_is_refused(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        install(tmp_path / name, monkeypatch, name=name, version="2", entries=ENTRIES)
    with pytest.raises(PluginError) as caught:
        plug.load(folder, "foreign")
    assert str(caught.value).startswith("one 2 and other 2 both have 'foreign' in their entry points tapebook.indexes")


def test_an_agent_decides_with_the_engine_of_the_example_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path, days=0)
    with tapebook.open(home) as book, pytest.raises(UnknownName, match="no 'contrarian' among the engines"):
        book.edit_agent("tester", {"engine": "contrarian", "members": ""})
    modules = install_example(tmp_path / "site", monkeypatch)
    fill_tape(home, list(bars("BTC", seed=1, days=2)))
    with tapebook.open(home) as book:
        saved = book.edit_agent("tester", {"engine": "contrarian", "members": ""})
        assert saved.changes[0]["after"] == "contrarian"
        run = book.tick("tester", "BTC")
        assert (run.engine, run.error) == ("contrarian", None)
        assert run.actions[0].reason == "the last bar did not move"
        result = book.backtest("tester", chunks="none", memory="off")
        assert result.total.trades > 5
        book.edit_agent("tester", {"engine_settings": "bars=2"})
        other = book.backtest("tester", chunks="none", memory="off")
        assert other.id != result.id and other.total.trades > result.total.trades
        with pytest.raises(ConfigError, match="engine contrarian: `bars` of `engine_settings` is 0 but must"):
            book.edit_agent("tester", {"engine_settings": "bars=0"})
        assert [stored["stale"] for stored in book.backtests.all()] == [[], []]
        # Its whole package counts, not only the module that the entry point names.
        (modules / "streaks.py").write_text((modules / "streaks.py").read_text() + "# another line\n")
        assert [stored["stale"] for stored in book.backtests.all()] == [["code"], ["code"]]


COUNCIL = """
from tapebook.decision.engines.ensemble import EnsembleEngine

MEMBERS = ("trend", "reversion")

def create(terms):
    return EnsembleEngine([(name, terms.member(name, 0)) for name in terms.members or MEMBERS])
"""


def test_members_of_an_engine_of_another_package_earn_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(
        tmp_path / "site",
        monkeypatch,
        name="council",
        version="1",
        entries={"tapebook.engines": {"council": "tapebook_council"}},
    )
    (site / "tapebook_council.py").write_text(COUNCIL)
    home = make_home(tmp_path, days=2)
    with tapebook.open(home) as book:
        book.edit_agent("tester", {"engine": "council", "members": ""})
        learned = book.backtest("tester", chunks="none", memory="on")
        with tapebook.open(home / "backtests" / learned.id) as inside:
            members = [each["name"] for each in inside.experience.show("tester")["members"]]
    assert members == ["cash", "equal", "trend", "reversion"]


VAULT = """
from pathlib import Path
from tapebook.archive.archives.folder import FolderArchive

class Vault(FolderArchive):
    is_local = False

def create(place, *, durable):
    return Vault(Path(place.removeprefix("vault:/")), durable=durable)
"""


def test_an_archive_of_another_package_is_chosen_by_the_scheme_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"tapebook.archives": {"vault": "tapebook_vault"}}
    site = install(tmp_path / "site", monkeypatch, name="vault", version="1", entries=entries)
    (site / "tapebook_vault.py").write_text(VAULT)
    home = make_home(tmp_path, days=1)
    shutil.copytree(home / "archive", tmp_path / "vault")
    (home / FILE).write_text(f'[archive]\nplace = "vault:/{tmp_path}/vault"\n', "utf-8")
    with tapebook.open(home) as book:
        run = book.tick("tester", "BTC")
        packs = tmp_path / "vault" / "packs"
        assert list((home / "spool").glob("*.seg")) and not packs.exists(), "a decision does not wait for it"
        assert book.replay(run.run_id).equal == 1
        book.doctor(fix=True)
        assert list(packs.rglob("*.z")) and not list((home / "spool").glob("*.seg"))
        assert book.replay(run.run_id).equal == 1 and book.verify(archive=True) == []
