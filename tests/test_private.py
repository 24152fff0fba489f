"""A home is its owner's alone: no file is open to others, and no password of a database is shown or copied."""

import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

import tapebook
from tapebook.api import app
from tapebook.archive.archives.folder import FolderArchive
from tapebook.desk import health
from tapebook.domain.market import Mid
from tapebook.errors import ConfigError
from tapebook.home import make_home_private, places_open_to_others
from tapebook.settings.config import FILE, load_config, with_setting
from tapebook.surfaces.cli import COMMANDS, main
from tapebook.surfaces.http.server import create_app
from tests.backtest.bars import bars, fill_tape, make_home
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, error
from tests.replay.storm import ROOT, environment

__all__ = ["offline", "one_server", "server"]

PLANTED = "pl4nted"


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A process that gives away whatever it is not careful with."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home as `tapebook init` leaves it; only to be copied."""
    folder = tmp_path_factory.mktemp("private") / "home"
    app.init(folder)
    return folder


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A new home."""
    return shutil.copytree(made, tmp_path / "home")


def open_below(home: Path) -> list[str]:
    """Everything that others may do something with, the home included."""
    found = [home, *home.rglob("*")]
    return [f"{path} {stat.filemode(path.stat().st_mode)}" for path in found if path.stat().st_mode & 0o077]


@pytest.mark.sqlite_file("looks at the modes of database files")
def test_every_file_of_a_home_is_for_its_owner_alone(open_umask: None, tmp_path: Path) -> None:
    home = tmp_path / "home"
    app.init(home)
    with app.open(home, recall="sqlite_fts") as book:
        book.recall.append("journal", "btc-5m", "nobody's business")
        book.recall.sync()
        fill_tape(home, list(bars("BTC", seed=1, days=2, minutes=15)))
        book.edit_agent("btc-5m", {"every_minutes": "15"})
        book.backtest("btc-5m", chunks="none", memory="off")
        book.tick("btc-5m", "BTC")
        assert book.doctor()[1].name == "private" and book.doctor()[1].ok
        names = {path.name for path in home.rglob("*")}
        assert {"book.db", "book.db-wal", "book.db-shm", "result.json", "workspace.json"} <= names
        assert any(name.endswith(".seg") for name in names) and any(name.endswith(".md") for name in names)
        assert open_below(home) == []
    assert open_below(home) == []


def test_home_of_before_is_tightened_when_its_owner_opens_it(home: Path) -> None:
    beside = home / "mine.txt"
    beside.write_text("not tapebook's")
    (home / "archive" / "sha256" / "ab").mkdir(parents=True, exist_ok=True)
    (home / "archive" / "sha256" / "ab" / "old.z").write_bytes(b"x")
    for path in [*home.rglob("*"), home]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    app.open(home).close()
    assert open_below(home) == [f"{beside} -rw-r--r--"] and places_open_to_others(home) == []


def test_doctor_names_what_is_open_and_cannot_be_closed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.chmod(0o755)
    (home / "book.db").chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    make_home_private(home)
    with app.open(home) as book:
        (found,) = [each for each in health.health_checks(book._rooms) if each.name == "private"]
    assert not found.ok and str(home / "book.db") in found.detail and "chmod -R go-rwx" in found.detail


URLS = [
    f"postgresql://bob:{PLANTED}@127.0.0.1:1/none",
    f"postgresql://bob:{PLANTED}/more@127.0.0.1:1/none",
    f"postgresql://bob:{PLANTED}@more@127.0.0.1:1/none",
    f"postgresql://bob:x%40{PLANTED}@127.0.0.1:1/none?bogus=1",
    f"postgresql://{PLANTED}@[::1/none",
    f"postgresql://127.0.0.1:1/none?password={PLANTED}",
    f"postgresql://bob:{PLANTED} with blanks@127.0.0.1/none",
    f"mysql://bob:{PLANTED}@127.0.0.1/none",
]


def point_at(home: Path, url: str, which: str) -> None:
    """Lets the settings of a home name a database."""
    text = (home / FILE).read_text("utf-8")
    (home / FILE).write_text(re.sub(rf'^{which} = ".*"', f'{which} = "{url}"', text, flags=re.MULTILINE), "utf-8")


@pytest.mark.parametrize("which", ["book", "tape"])
@pytest.mark.parametrize("url", URLS)
def test_password_is_in_no_error(home: Path, capfd: pytest.CaptureFixture[str], url: str, which: str) -> None:
    point_at(home, url, which)
    # A server that does not answer may do so later; an address that is none will not.
    assert main(["doctor", "--home", str(home)]) in (2, 75)
    out, err = capfd.readouterr()
    assert PLANTED not in out + err and err.startswith("error: ") and err.count("\n") == 1
    with pytest.raises(tapebook.TapebookError) as caught:
        tapebook.open(home)
    chain: list[BaseException | None] = [caught.value, caught.value.__cause__]
    assert PLANTED not in "".join(map(repr, chain))


WORDS = {
    "context": ["btc-5m", "BTC"],
    "tick": ["btc-5m", "BTC"],
    "trades": ["btc-5m"],
    "backtest": ["btc-5m"],
    "market": ["BTC"],
    "replay": ["--all"],
    "compare": ["a", "b"],
    "halt": ["--reason", "x"],
}
# Those that make a home or need none, and those that wait for a server, which are started below.
APART = {"init", "demo", "world", "up", "ingest"}


@pytest.mark.parametrize("command", sorted({each.__name__ for each in COMMANDS} - APART | {"agents", "runs"}))
def test_no_command_says_the_password(command: str, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    point_at(home, URLS[0], "book")
    assert main([command, *WORDS.get(command, []), "--home", str(home)]) != 0
    out, err = capfd.readouterr()
    assert PLANTED not in out + err and err


def test_no_process_of_a_desk_says_the_password(home: Path) -> None:
    point_at(home, URLS[0], "book")
    command = [sys.executable, "-m", "tapebook", "up", "--only", "worker", "--seconds", "0.3", "--home", str(home)]
    pipe = subprocess.PIPE
    desk = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe, text=True)
    assert desk.stderr
    said = desk.stderr.readline()
    desk.kill()
    with desk:
        rest = "".join(desk.communicate())
    assert "PostgreSQL does not answer" in said
    assert PLANTED not in said + rest


def test_password_is_in_no_file_of_a_backtest(tmp_path: Path, postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    if parts.password is not None:
        pytest.skip("the server named for tests asks for a password of its own")
    url = parts._replace(netloc=f"{parts.username}:{PLANTED}@{parts.hostname}:{parts.port}").geturl()
    home = make_home(tmp_path, days=0, every_minutes="15")
    point_at(home, url, "tape")
    fill_tape(home, list(bars("BTC", seed=1, days=2, minutes=15)))
    with tapebook.open(home) as book:
        result = book.backtest("tester", chunks="none", memory="off")
        assert PLANTED not in str(book.doctor())
    below = home / "backtests" / result.id
    holding = [path for path in below.rglob("*") if path.is_file() and PLANTED.encode() in path.read_bytes()]
    assert holding == []
    # It is opened with the password of the home above, as long as that names the same database.
    assert load_config(below, {}).store.tape == url
    with tapebook.open(below) as book:
        assert book.runs("tester", most=3) and book.verify() == []
    point_at(home, url.replace(parts.path, "/another"), "tape")
    with pytest.raises(ConfigError, match=r"`tape` in .* is postgresql://…@.*, which .* does not name") as caught:
        load_config(below, {})
    assert PLANTED not in str(caught.value)


def test_the_key_of_a_model_is_in_no_log_packet_archive_pickle_error_or_answer(
    made: Path,
    tmp_path: Path,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The provider repeats the key in its answers and errors, which are kept and shown."""
    home, key = shutil.copytree(made, tmp_path / "home"), f"sk-{PLANTED}-0123456789"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    (home / FILE).write_text(with_setting((home / FILE).read_text(), ("llm", "anthropic_url"), server.url))
    server.says(*[Said(status, error(f"no access with {key}")) for status in (401, 403, 400, 404)])
    with app.open(home) as book:
        book.add_agent("asks", {"watch": ["BTC"], "engine": "anthropic"})
        now = book._rooms.clock.now()
        book._rooms.tape.commit([Mid("BTC", now, 10**12)])
        run = book.tick("asks", "BTC")
        assert server.seen and key in repr(server.seen[0].headers) and run.error
        rooms = book._rooms
        kept = [repr(event) for stream in rooms.log.streams() for event in rooms.log.events(stream)]
        kept += [str(rooms.archive.get(each)) for each in rooms.archive.keys("")]
        kept.append(repr(pickle.dumps(rooms.config)))
        with TestClient(create_app(book), base_url="http://localhost") as client:
            paths = ["runs", f"runs/{run.run_id}", "status", "settings"]
            answers = [client.get(f"/api/v1/{path}") for path in paths]
        assert [each.status_code for each in answers] == [200] * len(paths)
        kept += [each.text for each in answers]
    assert main(["backup", str(tmp_path / "backups"), "--home", str(home)]) == 0
    assert main(["runs", "show", run.run_id, "--home", str(home)]) == 0
    backups = FolderArchive(tmp_path / "backups")
    kept += [repr(backups.get(each)) for each in backups.walk_keys()]
    out, err = capfd.readouterr()
    assert len(kept) > 10 and not [text for text in [*kept, out, err, caplog.text] if PLANTED in text]
