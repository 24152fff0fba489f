"""A home: made whole or not at all, and written by one process at a time."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tapebook.errors import HomeError, StoreFailed
from tapebook.home import exclusive_lock, is_home, lock_holders, make_home, require_home, role_lock, write_once
from tapebook.settings.config import FILE, TEMPLATE, load_config

ROOT = Path(__file__).parents[1]
LENGTH = 3_000_000

HOLD = """
from pathlib import Path
from tapebook.home import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
WRITE_FOR_EVER = """
from pathlib import Path
from tapebook.home import write_once
for number in range(10**9):
    write_once(Path(sys.argv[1]) / f"file-{number}", "x" * int(sys.argv[2]))
    print(number, flush=True)
"""
WRITE_AT_ONCE = """
from pathlib import Path
from tapebook.home import write_once
text = sys.argv[2] * int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
write_once(Path(sys.argv[1]), text)
print(Path(sys.argv[1]).read_text()[:1], flush=True)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs a script."""
    command = [sys.executable, "-c", f"import sys{script}", *map(str, arguments)]
    environment, pipe = {"PYTHONPATH": str(ROOT / "src")}, subprocess.PIPE
    return subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe)


def first_line(process: subprocess.Popen[str]) -> str:
    """What a process says first."""
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A new home."""
    make_home(tmp_path / "home")
    return tmp_path / "home"


def test_new_home_has_its_settings(home: Path) -> None:
    assert is_home(home)
    assert (home / FILE).read_text("utf-8") == TEMPLATE
    assert load_config(home, {}).owner == "local"
    assert sorted(path.name for path in home.iterdir()) == [FILE]


def test_settings_that_are_there_are_left_alone(home: Path) -> None:
    (home / FILE).write_text('owner = "me"\n')
    make_home(home)
    assert (home / FILE).read_text() == 'owner = "me"\n'


def test_folder_without_settings_is_no_home(tmp_path: Path) -> None:
    assert not is_home(tmp_path)
    (tmp_path / FILE).mkdir()
    assert not is_home(tmp_path)


def test_what_to_do_without_a_home(tmp_path: Path) -> None:
    place = tmp_path / "none"
    with pytest.raises(HomeError) as refused:
        require_home(place)
    assert str(refused.value) == (
        f"no tapebook home at {place}: run `tapebook init --home {place}` or `tapebook demo --home {place}` first, "
        "or name another folder with `home=`"
    )
    assert not place.exists()
    assert refused.value.exit_code == 2


def test_home_that_is_there_is_fine(home: Path) -> None:
    require_home(home)
    assert is_home(home)


# The lock


def test_second_writer_in_one_process_is_refused(home: Path) -> None:
    in_use = pytest.raises(HomeError, match=f"in use by process {os.getpid()}: stop it")
    with exclusive_lock(home), in_use, exclusive_lock(home):
        pass
    with exclusive_lock(home):
        assert (home / ".book.lock").read_text() == str(os.getpid())


def test_second_process_is_refused_and_told_whom_to_stop(home: Path) -> None:
    with start(HOLD, home) as holder:
        assert first_line(holder) == "held"
        with pytest.raises(HomeError) as refused, exclusive_lock(home):
            pass
        assert str(refused.value) == f"{home} is in use by process {holder.pid}: stop it, or use another `home=`"
        holder.communicate()
    with exclusive_lock(home):
        pass


def test_killed_process_lets_go(home: Path) -> None:
    with start(HOLD, home) as holder:
        assert first_line(holder) == "held"
        holder.kill()
    assert holder.returncode == -9
    with exclusive_lock(home):
        assert (home / ".book.lock").read_text() == str(os.getpid())


def test_error_inside_lets_go(home: Path) -> None:
    with pytest.raises(KeyError), exclusive_lock(home):
        raise KeyError
    with exclusive_lock(home):
        pass


def test_two_homes_have_two_locks(home: Path, tmp_path: Path) -> None:
    make_home(tmp_path / "other")
    with exclusive_lock(home), exclusive_lock(tmp_path / "other"):
        assert [(place / ".book.lock").exists() for place in (home, tmp_path / "other")] == [True, True]


def test_who_holds_a_lock_is_seen_without_trying_it(home: Path) -> None:
    assert lock_holders(home) == {}
    with role_lock(home, "librarian"):
        assert lock_holders(home) == {"librarian": [os.getpid()]}
    assert lock_holders(home) == {}


def test_tape_and_book_have_two_locks(home: Path) -> None:
    with exclusive_lock(home, "book"), exclusive_lock(home, "tape"):
        for what in ("book", "tape"):
            with pytest.raises(HomeError), exclusive_lock(home, what):
                pass


# Files that are written once


def test_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_once(path, "Zürich →\n")
    write_once(path, "other")
    assert path.read_bytes() == "Zürich →\n".encode()
    assert [found.name for found in path.parent.iterdir()] == ["file"]


def test_write_that_fails_leaves_nothing_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("link", "replace", "rename"):
        monkeypatch.setattr(os, name, no_room)
    with pytest.raises(StoreFailed, match="No space left on device; choose a folder you may write in with `home=`"):
        write_once(tmp_path / "file", "text")
    assert list(tmp_path.iterdir()) == []


def test_file_where_a_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFailed, match="cannot write "):
        write_once(tmp_path / "file" / "inside", "text")


def test_killed_writer_leaves_whole_files_only(tmp_path: Path) -> None:
    for pause in (0.0, 0.02, 0.05):
        with start(WRITE_FOR_EVER, tmp_path, LENGTH) as writer:
            first_line(writer)
            time.sleep(pause)
            writer.kill()
        there = [path for path in tmp_path.iterdir() if not path.name.endswith(".part")]
        assert there and [path.name for path in there if path.stat().st_size != LENGTH] == []


def test_writers_at_the_same_moment_agree_on_the_first(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with ExitStack() as stack:
        writers = [stack.enter_context(start(WRITE_AT_ONCE, path, letter, LENGTH)) for letter in "abc"]
        assert [first_line(writer) for writer in writers] == ["ready"] * 3
        for writer in writers:
            assert writer.stdin
            writer.stdin.write("go\n")
            writer.stdin.flush()
        read = {first_line(writer) for writer in writers}
    assert read == {path.read_text()[:1]}
    assert len(set(path.read_text())) == 1 and path.stat().st_size == LENGTH
