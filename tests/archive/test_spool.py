"""The spool: what an archive does not take waits beside it under the same key, and nothing is lost on the way."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.archive import SpooledArchive, SpoolState, put_content
from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.port import content_key
from tapebook.errors import BadInput, Damaged, StoreFailed
from tests.matrix import examples

ROOT = Path(__file__).parents[2]


class Moody:
    """An archive in memory that works, or raises what it is told to."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.error: Exception | None = None
        self.forgets = False
        self.is_local = True

    def create(self, key: str, content: bytes) -> None:
        """Keeps an object, or does not."""
        if self.error is not None:
            raise self.error
        if not self.forgets:
            self.kept.setdefault(key, content)

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Keeps objects, or does not."""
        for key, content in objects.items():
            self.create(key, content)

    def get(self, key: str) -> bytes | None:
        """An object."""
        if self.error is not None:
            raise self.error
        return self.kept.get(key)

    def keys(self, prefix: str) -> list[str]:
        """Every key with a prefix."""
        return sorted(key for key in self.kept if key.startswith(prefix))

    def has(self, key: str) -> bool:
        """Whether it keeps an object."""
        return key in self.kept

    def walk_keys(self) -> Iterator[str]:
        """Every key."""
        return iter(sorted(self.kept))

    def stray_files(self) -> Iterator[str]:
        """Nothing can be misplaced in memory."""
        return iter(())

    def repaired_objects(self) -> list[str]:
        """Nothing was."""
        return []

    def delete_partial_writes(self, *, before_ms: int, everywhere: bool = False) -> int:
        """Nothing is half written."""
        return 0


@pytest.fixture
def moody() -> Moody:
    """An archive that works at first."""
    return Moody()


@pytest.fixture
def spooled(moody: Moody, tmp_path: Path) -> SpooledArchive:
    """That archive with a spool."""
    return SpooledArchive(moody, tmp_path / "spool")


def test_what_the_archive_takes_leaves_no_spool(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    kept = spooled.store_content(b"one")
    assert (kept.key, kept.problem) == (content_key(b"one"), None)
    assert spooled.get(kept.key or "") == moody.kept[kept.key or ""] == b"one"
    assert spooled.spool_state() == SpoolState() and not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), StoreFailed("full"), TimeoutError(), KeyError("bucket"), Damaged("x")],
)
def test_what_it_does_not_take_waits_and_is_read_there(spooled: SpooledArchive, moody: Moody, error: Exception) -> None:
    moody.error = error
    kept = spooled.store_content(b"one")
    assert (kept.key, kept.problem) == (content_key(b"one"), error)
    assert spooled.store_content_or_raise(b"one") == kept.key and spooled.get(kept.key or "") == b"one"
    state = spooled.spool_state()
    assert state.objects == 1 and state.bytes > 0 and state.oldest_ms is not None
    assert spooled.drain().left == 1 and spooled.get(kept.key or "") == b"one"
    moody.error = None
    # The next that is kept takes it along.
    spooled.store_content(b"two")
    assert moody.kept == {content_key(each): each for each in (b"one", b"two")}
    assert spooled.spool_state() == SpoolState() and spooled.get(kept.key or "") == b"one"


def test_another_process_moves_what_was_left(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    moody.error = StoreFailed("full")
    wanted = {content_key(each): each for each in (bytes([number]) for number in range(40))}
    for content in wanted.values():
        spooled.store_content(content)
    moody.error = None
    other = SpooledArchive(moody, tmp_path / "spool")
    assert other.keys("sha256/") == sorted(wanted)
    other.store_content(b"more")
    assert 0 < len(moody.kept) < 40, "one decision does not wait for all of them"
    drained = other.drain()
    assert drained.left == 0 and drained.problem is None and moody.kept.items() >= wanted.items()
    assert spooled.spool_state() == SpoolState() and spooled.drain().moved == 0


def test_whoever_must_know_hears_of_it(spooled: SpooledArchive, moody: Moody) -> None:
    """What is deleted once it is archived goes to the archive itself, or stays where it is."""
    moody.error = StoreFailed("full")
    with pytest.raises(StoreFailed):
        put_content(spooled, b"a chunk of the tape")
    assert spooled.spool_state() == SpoolState()


def test_an_object_leaves_only_after_the_archive_gave_it_back(spooled: SpooledArchive, moody: Moody) -> None:
    moody.error = StoreFailed("full")
    key = spooled.store_content_or_raise(b"one")
    moody.error, moody.forgets = None, True
    drained = spooled.drain()
    assert drained.left == 1 and isinstance(drained.problem, Damaged) and spooled.get(key) == b"one"


def test_neither_takes_it(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the folder belongs")
    moody.error = StoreFailed("full")
    kept = spooled.store_content(b"one")
    assert (kept.key, kept.problem) == (None, moody.error)
    with pytest.raises(StoreFailed, match="full"):
        spooled.store_content_or_raise(b"one")
    moody.error = None
    assert spooled.store_content(b"two").problem is None and spooled.drain().left == 0


def test_what_is_damaged_in_the_spool_stays_and_hinders_nobody(
    spooled: SpooledArchive, moody: Moody, tmp_path: Path
) -> None:
    moody.error = StoreFailed("full")
    contents = [bytes([number]) for number in range(8)]
    keys = [spooled.store_content_or_raise(content) for content in contents]
    files = {key: tmp_path / "spool" / f"{key}.z" for key in keys}
    first, second = sorted(keys)[:2]
    files[first].write_bytes(b"no zlib")
    shutil.copy(files[sorted(keys)[2]], files[second])
    moody.error = None
    drained = spooled.drain()
    assert (drained.moved, drained.left) == (6, 2) and isinstance(drained.problem, Damaged)
    assert files[first].exists() and files[second].exists() and set(moody.kept) == set(keys) - {first, second}
    for key in (first, second):
        with pytest.raises(Damaged):
            spooled.get(key)


def test_altered_content_is_never_given_back(spooled: SpooledArchive, moody: Moody) -> None:
    key = spooled.store_content_or_raise(b"what was sent")
    moody.kept[key] = b"what somebody would rather have sent"
    with pytest.raises(Damaged, match=rf"the archive's {key} was altered: .* restore it from a backup"):
        spooled.get(key)
    moody.kept["anchors/local/-/1"] = b"named, not hashed"
    assert spooled.get("anchors/local/-/1") == b"named, not hashed"


def test_altered_content_is_no_loss_while_a_whole_copy_waits(spooled: SpooledArchive, moody: Moody) -> None:
    moody.error = StoreFailed("full")
    key = spooled.store_content_or_raise(b"one")
    moody.error, moody.kept[key] = None, b"another"
    assert spooled.get(key) == b"one"


def test_an_error_of_the_archive_is_the_readers_when_nothing_waits(spooled: SpooledArchive, moody: Moody) -> None:
    moody.error = StoreFailed("unreachable")
    with pytest.raises(StoreFailed, match="unreachable"):
        spooled.get(content_key(b"one"))
    moody.error = None
    assert spooled.get(content_key(b"one")) is None
    with pytest.raises(BadInput):
        SpooledArchive(FolderArchive(Path("x")), Path("y")).get("../up")


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["keep", "fail", "mend", "drain", "reopen"]), st.integers(0, 5)), max_size=25)
)
def test_nothing_that_was_kept_is_ever_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    moody, folder = Moody(), tmp_path_factory.mktemp("spool")
    spooled, kept = SpooledArchive(moody, folder / "s"), {}
    does: dict[str, Callable[[int], object]] = {
        "fail": lambda _: setattr(moody, "error", OSError("down")),
        "mend": lambda _: setattr(moody, "error", None),
        "drain": lambda _: spooled.drain(),
    }
    for step, number in steps:
        if step == "keep":
            content = bytes([number])
            kept[spooled.store_content(content).key or ""] = content
        elif step == "reopen":
            spooled = SpooledArchive(moody, folder / "s")
        else:
            does[step](number)
        moody_now, moody.error = moody.error, None
        assert {key: spooled.get(key) for key in kept} == kept
        moody.error = moody_now
    moody.error = None
    spooled.drain()
    assert moody.kept.items() >= kept.items() and spooled.spool_state() == SpoolState()


# A folder as the archive


def test_a_folder_that_went_away_and_came_back(tmp_path: Path) -> None:
    place, away = tmp_path / "archive", tmp_path / "unmounted"
    spooled = SpooledArchive(FolderArchive(place), tmp_path / "spool")
    before = spooled.store_content_or_raise(b"before")
    place.rename(away)
    meanwhile, again = spooled.store_content_or_raise(b"meanwhile"), spooled.store_content_or_raise(b"before")
    assert again == before and not place.exists(), "an archive that is gone is not made anew in its place"
    assert spooled.get(meanwhile) == b"meanwhile" and spooled.get(before) == b"before"
    away.rename(place)
    spooled.store_content(b"after")
    assert spooled.spool_state() == SpoolState()
    there = FolderArchive(place)
    assert [there.get(key) for key in (before, meanwhile)] == [b"before", b"meanwhile"]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    place.write_text("not a folder")
    spooled = SpooledArchive(FolderArchive(place), tmp_path / "spool")
    key = spooled.store_content_or_raise(b"one")
    assert spooled.get(key) == b"one" and spooled.spool_state().objects == 1
    place.unlink()
    assert spooled.drain().left == 0 and FolderArchive(place).get(key) == b"one"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        spooled = SpooledArchive(FolderArchive(place), tmp_path / "spool")
        contents = [os.urandom(9_000) for _ in range(20)]
        kept = [spooled.store_content(content) for content in contents]
        assert any(each.problem is None for each in kept) and any(each.problem is not None for each in kept)
        assert [spooled.get(each.key or "") for each in kept] == contents
        subprocess.run(["mount", "-o", "remount,size=1m", str(place)], check=True)
        assert spooled.drain().left == 0 and spooled.spool_state() == SpoolState()
        assert [FolderArchive(place).get(each.key or "") for each in kept] == contents
    finally:
        subprocess.run(["umount", str(place)], check=True)


WRITER = """
import sys
from pathlib import Path
from tapebook.archive import SpooledArchive
from tapebook.archive.archives.folder import FolderArchive

home, number = Path(sys.argv[1]), int(sys.argv[2])
spooled = SpooledArchive(FolderArchive(home / "archive"), home / "spool")
while True:
    number += 1
    # Every other time the archive is a file, so that content goes to the spool; then it is drained.
    if number % 8 == 0:
        (home / "archive").rename(home / "away")
        (home / "archive").write_text("no folder")
    if number % 8 == 4 and (home / "away").exists():
        (home / "archive").unlink()
        (home / "away").rename(home / "archive")
        spooled.drain()
    print(spooled.store_content_or_raise(str(number).encode() * 2_000), flush=True)
"""


def test_a_process_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    said: list[str] = []
    for attempt in range(6):
        _mend(tmp_path)
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(attempt * 100_000)]
        environment = {"PYTHONPATH": str(ROOT / "src")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
            assert writer.stdout
            said.append(writer.stdout.readline())
            time.sleep(0.02 * attempt)
            writer.send_signal(signal.SIGKILL)
            said += writer.stdout.readlines()
        _mend(tmp_path)
        spooled = SpooledArchive(FolderArchive(tmp_path / "archive"), tmp_path / "spool")
        keys = {line.strip() for line in said if line.endswith("\n")}
        assert [key for key in keys if content_key(spooled.get(key) or b"") != key] == []
    spooled.drain()
    there = FolderArchive(tmp_path / "archive")
    assert len(keys) > 20 and [key for key in keys if there.get(key) is None] == []
    assert spooled.spool_state() == SpoolState()


def _mend(home: Path) -> None:
    """Puts the archive back where a killed process has moved it away."""
    if (home / "away").exists():
        (home / "archive").unlink(missing_ok=True)
        (home / "away").rename(home / "archive")


def test_an_archive_elsewhere_is_not_waited_for(spooled: SpooledArchive, moody: Moody) -> None:
    moody.is_local = False
    kept = spooled.store_contents([b"one", b"two"])
    assert [(each.key, each.problem) for each in kept] == [(content_key(b"one"), None), (content_key(b"two"), None)]
    assert moody.kept == {} and spooled.spool_state().objects == 2
    # What waits is read from here: nobody asks an archive that does not answer.
    moody.error = StoreFailed("away")
    assert spooled.get(content_key(b"one")) == b"one"
    assert spooled.drain().moved == 0 and spooled.store_content(b"three").problem is None
    moody.error = None
    assert spooled.drain().moved == 3 and spooled.spool_state().objects == 0
    assert moody.kept.keys() == {content_key(each) for each in (b"one", b"two", b"three")}
    assert spooled.get(content_key(b"two")) == b"two" and not spooled.is_local


def test_what_neither_takes_has_no_key(moody: Moody, tmp_path: Path) -> None:
    moody.is_local = False
    (tmp_path / "spool").write_text("in the way")
    kept = SpooledArchive(moody, tmp_path / "spool").store_content(b"one")
    assert kept.key is None and isinstance(kept.problem, Exception)
