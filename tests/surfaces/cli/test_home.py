"""Commands on the home: made once, verified, examined; what is not well is exit code 3."""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapebook.api import app
from tapebook.api.app import Check, Finding
from tapebook.domain.market import Mid
from tapebook.settings.config import TEMPLATE, load_config

Run = Callable[..., tuple[int, str, str]]


def test_init_makes_a_home_once(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    code, out, err = run("init", "--home", str(home))
    assert (code, err) == (0, "")
    assert str(home / "tapebook.toml") in out
    written = (home / "tapebook.toml").read_text("utf-8")
    assert written == TEMPLATE.replace('["hyperliquid"]', '["hyperliquid", "polymarket", "defillama"]')
    assert load_config(home, {}).sources == ("hyperliquid", "polymarket", "defillama")
    code, out, err = run("init", "--home", str(home))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {home} is a tapebook home already")


def test_a_whole_home_is_clean(run: Run, home: str) -> None:
    # On a busy machine it says on stderr how far it has come.
    assert run("verify", "--home", home)[:2] == (0, "clean\n")
    assert run("verify", "--home", home, "--json", "--all")[:2] == (0, "[]\n")


def test_findings_exit_3(run: Run, facade: SimpleNamespace) -> None:
    facade.verify = lambda **asked: [Finding("local/x", "event 7 was changed " + "x" * 100, "restore it")]
    code, out, err = run("verify")
    lines = ["where    problem", "local/x  event 7 was changed " + "x" * 100, "local/x: restore it"]
    assert (code, out.splitlines()) == (3, lines)
    assert err.startswith("error: ") and err.count("\n") == 1
    code, out, _ = run("verify", "--json")
    assert (code, json.loads(out)[0]["where"]) == (3, "local/x")


def test_doctor_of_a_real_home(run: Run, home: str) -> None:
    code, out, err = run("doctor", "--home", home)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["check", "ok", "detail"]
    assert {line.split()[0] for line in out.splitlines()} >= {"book", "tape", "disk"}
    assert all(check["ok"] for check in json.loads(run("doctor", "--home", home, "--json")[1]))


def test_what_is_not_well_exits_3(run: Run, facade: SimpleNamespace) -> None:
    facade.doctor = lambda: [Check("book", True, "fine"), Check("disk", False, "0.1 GB free: delete something")]
    code, out, err = run("doctor")
    assert (code, err) == (3, "error: not well: disk; the details say what to do\n")
    assert out.splitlines() == ["check  ok   detail", "book   yes  fine", "disk   no   0.1 GB free: delete something"]


def ticked(run: Run, own: str) -> Path:
    """A home of one's own after one decision."""
    assert run("tick", "btc-5m", "BTC", "--home", own)[0] == 0
    assert run("verify", "--all", "--home", own)[:2] == (0, "clean\n")
    return Path(own)


def put_back(copy: Path, place: Path) -> None:
    """Replaces a database by an older copy of it, without what is newer beside it."""
    for beside in ("-wal", "-shm"):
        Path(f"{place}{beside}").unlink(missing_ok=True)
    shutil.copy(copy, place)


def test_a_book_put_back_from_a_copy_is_found(run: Run, own: str, tmp_path: Path) -> None:
    book = ticked(run, own) / "book.db"
    copy = Path(shutil.copy(book, tmp_path / "aside.db"))
    assert run("tick", "btc-5m", "BTC", "--home", own)[0] == 0
    put_back(copy, book)
    code, out, err = run("verify", "--home", own, "--json")
    assert code == 3 and "1 contradiction in" in err
    assert any("the stream ends at" in found["problem"] for found in json.loads(out))


def test_a_tape_put_back_from_a_copy_is_found(run: Run, own: str, tmp_path: Path) -> None:
    home = ticked(run, own)
    copy = Path(shutil.copy(home / "tape.db", tmp_path / "aside.db"))
    with app.open(home) as book:
        book._rooms.tape.commit([Mid("BTC", 0, 1)])
    put_back(copy, home / "tape.db")
    code, out, _ = run("verify", "--home", own, "--json")
    assert code == 3
    assert [found["where"] for found in json.loads(out)] == ["tape.db"]
    assert "the tape ends at 0: it was cut off" in out


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("how", ["deleted", "altered", "replaced"])
def test_lost_and_altered_anchors_are_found(run: Run, own: str, number: int, how: str) -> None:
    home = ticked(run, own)
    assert run("halt", "btc-5m", "--home", own)[0] == 0
    folder = home / "archive" / "anchors" / "000000"
    assert sorted(path.name for path in folder.iterdir()) == [f"00000000{each}.z" for each in (1, 2, 3)]
    file = folder / f"{number:09d}.z"
    content = zlib.decompress(file.read_bytes())
    if how == "deleted":
        file.unlink()
    elif how == "altered":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        file.write_bytes(zlib.compress(content.replace(b'"written_at":1', b'"written_at":2')))
    code, out, _ = run("verify", "--home", own, "--json")
    assert (code, {found["where"] for found in json.loads(out)}) == (3, {f"anchor {number}"})


def test_an_archive_put_back_from_a_copy_is_found(run: Run, own: str, tmp_path: Path) -> None:
    home = ticked(run, own)
    shutil.copytree(home / "archive", tmp_path / "aside")
    assert run("tick", "btc-5m", "BTC", "--home", own)[0] == 0
    shutil.rmtree(home / "archive")
    shutil.copytree(tmp_path / "aside", home / "archive")
    code, out, _ = run("verify", "--home", own, "--json")
    assert code == 3 and {"anchor 3"} <= {found["where"] for found in json.loads(out)}


def test_every_command_that_changes_something_leaves_an_anchor(run: Run, own: str) -> None:
    folder = Path(own) / "archive" / "anchors"
    commands = [
        ["agents", "add", "x", "--watch", "BTC"],
        ["agents", "edit", "x", "--engine", "trend"],
        ["tick", "x", "BTC"],
        ["halt", "x"],
        ["resume", "x"],
        ["recall", "append", "journal", "x", "a thought"],
    ]
    for words in commands:
        before = len(list(folder.rglob("*.z")))
        assert run(*words, "--home", own)[0] == 0, words
        assert len(list(folder.rglob("*.z"))) == before + 1, words
    for words in (["agents"], ["runs"], ["doctor"], ["verify"], ["context", "x", "BTC"]):
        before = len(list(folder.rglob("*.z")))
        run(*words, "--home", own)
        assert len(list(folder.rglob("*.z"))) == before, words


def test_an_anchor_of_a_process_that_died_before_its_note_joins_the_chain(run: Run, own: str, tmp_path: Path) -> None:
    home = ticked(run, own)
    copy = tmp_path / "aside.db"
    shutil.copy(home / "book.db", copy)
    with app.open(home) as book:
        book._rooms.tape.commit([Mid("BTC", 0, 1)])
    # The anchor is there, and the note of it is not.
    put_back(copy, home / "book.db")
    assert run("verify", "--home", own)[:2] == (0, "clean\n")
    assert run("halt", "btc-5m", "--home", own)[0] == 0
    assert run("verify", "--home", own)[:2] == (0, "clean\n")


def test_an_archive_that_cannot_be_written_is_a_warning(run: Run, own: str) -> None:
    shutil.rmtree(Path(own) / "archive")
    (Path(own) / "archive").write_text("in the way")
    code, _, err = run("halt", "btc-5m", "--home", own)
    assert code == 0
    assert err.startswith("warning: no anchor was written") and err.count("\n") == 1
