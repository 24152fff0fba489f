"""The spool: content is appended to segments, packed for the archive later, and nothing is lost on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.archive import Archive, ArchiveReference, SpooledArchive, SpoolState, put_content
from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.packs import make_pack, pack_key, pack_places, packed_group
from tapebook.archive.spool import Segments, locked_segment, longest_wait_ms, segment_files
from tapebook.clock import SystemClock, VirtualClock
from tapebook.domain.canonical import content_key
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput, Damaged, StoreFailed
from tests.matrix import examples

ROOT = Path(__file__).parents[2]
MACHINE = SystemClock().now


def spool_of(archive: Archive, folder: Path, now: Callable[[], int] = MACHINE) -> SpooledArchive:
    """An archive with a spool, by the machine's clock or another."""
    return SpooledArchive(archive, folder, now=now)


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

    def delete_backup(self, key: str) -> None:
        """Forgets an object."""
        self.kept.pop(key, None)

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

    def write_problem(self) -> str | None:
        """What it was told to raise."""
        return None if self.error is None else str(self.error)

    def packed_keys(self) -> set[str]:
        """The key of every object it keeps in packs."""
        return {place.key for pack in self.kept.values() for place in pack_places(pack)}

    def contents(self) -> dict[str, bytes]:
        """Every object it keeps in packs."""
        found: dict[str, bytes] = {}
        for key, pack in self.kept.items():
            assert key == pack_key(pack)
            for place in pack_places(pack):
                group = packed_group(pack, place)
                found[place.key] = group[place.offset : place.offset + place.size]
        return found


@pytest.fixture
def moody() -> Moody:
    """An archive that works at first."""
    return Moody()


@pytest.fixture
def spooled(moody: Moody, tmp_path: Path) -> SpooledArchive:
    """That archive with a spool."""
    return spool_of(moody, tmp_path / "spool")


def test_content_waits_in_a_segment_until_it_is_packed(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    kept = spooled.store_contents([b"one", b"two", b"one"])
    assert [(each.key, each.problem) for each in kept] == [
        (content_key(each), None) for each in (b"one", b"two", b"one")
    ]
    assert moody.kept == {} and len(segment_files(tmp_path / "spool")) == 1
    assert spooled.get(content_key(b"one")) == b"one"
    state = spooled.spool_state()
    assert state.objects == 2 and state.bytes > 0 and state.oldest_ms is not None
    drained = spooled.drain()
    assert (drained.moved, drained.left, drained.problem) == (2, 0, None)
    assert spooled.spool_state() == SpoolState() and segment_files(tmp_path / "spool") == []
    assert len(moody.kept) == 1 and moody.contents() == {content_key(each): each for each in (b"one", b"two")}
    assert spooled.get(content_key(b"two")) == b"two" and spooled.has(content_key(b"one"))
    assert spooled.keys("sha256/") == sorted(moody.contents()) and spooled.get(content_key(b"three")) is None


def test_content_stored_long_ago_keeps_its_key_when_newer_content_pushes_it_out(spooled: SpooledArchive) -> None:
    spooled.store_contents([b"a reply that many decisions share"])
    for number in range(600):
        kept = spooled.store_contents([b"packet %d" % number, b"a reply that many decisions share"])
        assert all(each.key for each in kept)


def test_what_was_stored_is_not_stored_again(spooled: SpooledArchive) -> None:
    for _ in range(50):
        spooled.store_content(b"hold")
    assert spooled.spool_state().objects == 1
    spooled.drain()
    spooled.store_content(b"hold")
    assert spooled.spool_state() == SpoolState() and spooled.get(content_key(b"hold")) == b"hold"


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), StoreFailed("full"), TimeoutError(), KeyError("bucket"), Damaged("x")],
)
def test_what_the_archive_does_not_take_waits(spooled: SpooledArchive, moody: Moody, error: Exception) -> None:
    moody.error = error
    kept = spooled.store_content(b"one")
    assert (kept.key, kept.problem) == (content_key(b"one"), None), "a decision does not even hear of it"
    drained = spooled.drain()
    assert (drained.moved, drained.left, drained.problem) == (0, 1, error)
    assert spooled.get(kept.key or "") == b"one"
    moody.error = None
    spooled.store_content(b"two")
    assert spooled.drain().moved == 2 and moody.contents() == {content_key(each): each for each in (b"one", b"two")}


START = 1_790_000_000_000


def test_a_pack_is_made_when_it_is_worth_one(moody: Moody, tmp_path: Path) -> None:
    clock = VirtualClock(START)
    spooled = spool_of(moody, tmp_path / "spool", clock.now)
    for number in range(192):
        spooled.store_content(b"reply %d" % number)
    clock.advance(START + HOUR - 1)
    assert spooled.drain(when_due=True).left == 192 and moody.kept == {}
    clock.advance(START + HOUR)
    assert spooled.drain(when_due=True).moved == 192 and len(moody.kept) == 1
    for number in range(512):
        spooled.store_content(b"another %d" % number)
    assert spooled.drain(when_due=True).moved == 512 and len(moody.kept) == 2
    spooled.store_contents([b"late %d" % number for number in range(191)])
    clock.advance(START + 7 * HOUR - 1)
    assert spooled.drain(when_due=True).left == 191 and len(moody.kept) == 2
    clock.advance(START + 7 * HOUR)
    assert spooled.drain(when_due=True).moved == 191 and len(moody.kept) == 3


@pytest.mark.parametrize("every_minutes", [1, 5, 30, 60, 240])
def test_nothing_waits_for_longer_than_is_said_however_slow_a_desk_is(
    moody: Moody, tmp_path: Path, every_minutes: int
) -> None:
    """A worker appends a packet and a reply now and then and goes on living; a librarian looks every five minutes."""
    clock, waiting, decisions = VirtualClock(START), dict[str, int](), 0
    worker = spool_of(moody, tmp_path / "spool", clock.now)
    librarian = spool_of(moody, tmp_path / "spool", clock.now)
    for minute in range(0, 2 * 24 * 60):
        clock.advance(START + minute * MINUTE)
        if minute % every_minutes == 0:
            decisions += 1
            for kind in (b"packet", b"reply"):
                waiting[worker.store_content_or_raise(b"%s of minute %d" % (kind, minute))] = clock.now()
            # A file says when it was last written, which is not what counts.
            for path in segment_files(tmp_path / "spool"):
                os.utime(path, (clock.now() / 1_000,) * 2)
        if minute % 5 == 0:
            packs = len(moody.kept)
            assert librarian.drain(when_due=True).problem is None
            if len(moody.kept) > packs:
                packed = moody.packed_keys()
                waiting = {key: at for key, at in waiting.items() if key not in packed}
            waited = clock.now() - min(waiting.values(), default=clock.now())
            assert waited == 0 or waited < longest_wait_ms(len(waiting)), f"{waited / HOUR} h of {len(waiting)}"
    if every_minutes <= 5:
        assert 1_000 * len(moody.kept) / decisions <= 14
    assert len(moody.kept) <= max(4 * 2, decisions / 96 + 1), "the slowest desk makes four packs a day"


def test_a_segment_is_as_old_as_its_first_record_after_a_restart_and_in_a_copy(moody: Moody, tmp_path: Path) -> None:
    clock = VirtualClock(START)
    first = spool_of(moody, tmp_path / "spool", clock.now)
    first.store_content(b"one")
    clock.advance(START + 5 * HOUR)
    first.store_content(b"two")
    first.close()
    (path,) = segment_files(tmp_path / "spool")
    copy = tmp_path / "restored" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    clock.advance(START + 6 * HOUR)
    for folder in ("spool", "restored"):
        again = spool_of(moody, tmp_path / folder, clock.now)
        again.store_content(b"three")
        assert again.spool_state().oldest_ms == START and again.drain(when_due=True).moved == 3


def test_a_clock_that_was_set_back_puts_nothing_off(moody: Moody, tmp_path: Path) -> None:
    spool_of(moody, tmp_path / "spool", lambda: START + 400 * 24 * HOUR).store_content(b"one")
    assert spool_of(moody, tmp_path / "spool", lambda: START).drain(when_due=True).moved == 1


def test_a_segment_of_an_older_version_is_as_old_as_its_file(moody: Moody, tmp_path: Path) -> None:
    spooled = spool_of(moody, tmp_path / "spool")
    spooled.store_content(b"one")
    spooled.close()
    (path,) = segment_files(tmp_path / "spool")
    os.utime(path.rename(path.with_name("tmpa1b2c3d4.seg")), (START / 1_000,) * 2)
    late = spool_of(moody, tmp_path / "spool", lambda: START + 6 * HOUR)
    assert late.spool_state().oldest_ms == START and late.drain(when_due=True).moved == 1


def test_another_process_reads_and_packs_what_was_left(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    other = spool_of(moody, tmp_path / "spool")
    first = spooled.store_content_or_raise(b"first")
    assert other.get(first) == b"first"
    wanted = {content_key(each): each for each in (bytes([number]) for number in range(40))}
    for content in wanted.values():
        spooled.store_content(content)
    assert other.keys("sha256/") == sorted([*wanted, first])
    assert other.drain().moved == 41, "whoever wrote it goes on living, and need not end for it"
    assert {key: spooled.get(key) for key in wanted} == wanted
    # What it had in hand is packed and gone; it goes on in a new segment.
    again = spooled.store_content_or_raise(b"again")
    assert other.get(again) == b"again" and spooled.drain().moved == 1


def test_a_machine_with_the_archive_alone_reads_all_of_it(
    spooled: SpooledArchive, moody: Moody, tmp_path: Path
) -> None:
    contents = [b"a packet that says nearly the same %d" % number * 100 for number in range(300)]
    keys = [each.key or "" for each in spooled.store_contents(contents)]
    spooled.drain()
    elsewhere = spool_of(moody, tmp_path / "new")
    assert [elsewhere.get(key) for key in keys] == contents
    (tmp_path / "spool" / "packs.db").write_bytes(b"no database any more")
    assert [spool_of(moody, tmp_path / "spool").get(key) for key in keys] == contents


def test_packets_together_take_a_fraction_of_each_alone(spooled: SpooledArchive, moody: Moody) -> None:
    lines = [f"bar {number}: {number * 7919 % 1_000} {number * 104_729 % 1_000}\n" for number in range(1_000)]
    contents = ["".join(lines[start : start + 100]).encode() for start in range(800)]
    spooled.store_contents(contents)
    spooled.drain()
    assert sum(map(len, moody.kept.values())) < 400 * len(contents) < sum(map(len, contents)) / 4
    assert len(moody.kept) == 1


def test_whoever_must_know_hears_of_it(spooled: SpooledArchive, moody: Moody) -> None:
    """What is deleted once it is archived goes to the archive itself, or stays where it is."""
    moody.error = StoreFailed("full")
    with pytest.raises(StoreFailed):
        put_content(spooled, b"a chunk of the tape")
    assert spooled.spool_state() == SpoolState()


def test_an_object_leaves_only_after_the_archive_gave_it_back(spooled: SpooledArchive, moody: Moody) -> None:
    key = spooled.store_content_or_raise(b"one")
    moody.forgets = True
    drained = spooled.drain()
    assert drained.left == 1 and isinstance(drained.problem, Damaged) and spooled.get(key) == b"one"


def test_neither_takes_it(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the folder belongs")
    moody.error = StoreFailed("full")
    kept = spooled.store_content(b"one")
    assert kept.key is None and isinstance(kept.problem, OSError)
    with pytest.raises(StoreFailed, match="nor to the archive"):
        spooled.store_content_or_raise(b"one")
    moody.error = None
    # Without a spool an archive on the disk takes it at once; one elsewhere is not waited for.
    assert spooled.store_content(b"two").problem is None and moody.kept == {content_key(b"two"): b"two"}
    assert spooled.get(content_key(b"two")) == b"two" and spooled.drain().left == 0
    moody.is_local = False
    assert spooled.store_content(b"three").key is None and len(moody.kept) == 1


def test_what_is_damaged_in_the_spool_stays_and_hinders_nobody(
    spooled: SpooledArchive, moody: Moody, tmp_path: Path
) -> None:
    bad = [spooled.store_content_or_raise(b"bad %d" % number) for number in range(3)]
    spooled.close()
    (segment,) = segment_files(tmp_path / "spool")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    good = spool_of(moody, tmp_path / "spool").store_content_or_raise(b"good")
    other = spool_of(moody, tmp_path / "spool")
    drained = other.drain()
    assert isinstance(drained.problem, Damaged) and segment.exists() and other.get(good) == b"good"
    found = list(other.check(ArchiveReference(key, f"packet of {key}") for key in [*bad, good]))
    assert found and all(each.by != f"packet of {good}" for each in found)


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_byte_of_a_segment_is_altered_unnoticed_where_it_means_something(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: int
) -> None:
    folder, moody = tmp_path_factory.mktemp("spool"), Moody()
    spooled = spool_of(moody, folder)
    contents = {spooled.store_content_or_raise(text): text for text in (b"one" * 40, b"two" * 50, b"three" * 60)}
    spooled.close()
    (segment,) = segment_files(folder)
    content = bytearray(segment.read_bytes())
    content[place % len(content)] ^= change
    segment.write_bytes(content)
    other = spool_of(moody, folder)
    if not list(other.check(ArchiveReference(key, "a run") for key in contents)):
        # Some bits of a zlib stream mean nothing, such as the level in its header: then all content is whole.
        assert {key: other.get(key) for key in contents} == contents
        return
    for key, text in contents.items():
        try:
            assert other.get(key) in (text, None)
        except Damaged:
            continue


def test_an_altered_level_in_the_header_of_a_zlib_stream_is_no_damage(tmp_path: Path) -> None:
    spooled, text = spool_of(Moody(), tmp_path), b"one" * 40
    key = spooled.store_content_or_raise(text)
    spooled.close()
    (segment,) = segment_files(tmp_path)
    content = segment.read_bytes()
    assert content.count(b"\x78\x01") == 1
    segment.write_bytes(content.replace(b"\x78\x01", b"\x78\x5e"))
    other = spool_of(Moody(), tmp_path)
    assert other.get(key) == text and not list(other.check([ArchiveReference(key, "a run")]))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 400))
def test_a_torn_end_is_no_damage_and_nobody_writes_behind_it(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder, moody = tmp_path_factory.mktemp("spool"), Moody()
    spooled = spool_of(moody, folder)
    whole = spooled.store_content_or_raise(os.urandom(100))
    (segment,) = segment_files(folder)
    safe = segment.stat().st_size
    spooled.store_content_or_raise(os.urandom(300))
    spooled.close()
    with open(segment, "r+b") as file:
        file.truncate(min(safe + cut, segment.stat().st_size))
    other = spool_of(moody, folder)
    after = other.store_content_or_raise(b"after")
    assert list(other.check(ArchiveReference(key, "a run") for key in (whole, after))) == []
    assert other.drain().problem is None and segment_files(folder) == []
    assert other.get(whole) is not None and other.get(after) == b"after"


def test_altered_content_is_never_given_back(spooled: SpooledArchive, moody: Moody) -> None:
    key = put_content(spooled, b"what was sent")
    moody.kept[key] = b"what somebody would rather have sent"
    with pytest.raises(Damaged, match=rf"the archive's {key} was altered: .* restore it from a backup"):
        spooled.get(key)
    moody.kept["anchors/local/-/1"] = b"named, not hashed"
    assert spooled.get("anchors/local/-/1") == b"named, not hashed"


def test_a_pack_that_was_altered_is_noticed(spooled: SpooledArchive, moody: Moody, tmp_path: Path) -> None:
    key = spooled.store_content_or_raise(b"one")
    spooled.drain()
    ((name, pack),) = moody.kept.items()
    moody.kept[name] = make_pack({content_key(b"two"): b"two"})
    other = spool_of(moody, tmp_path / "new")
    with pytest.raises(Damaged):
        other.get(key)
    kinds = {(each.key, each.kind) for each in other.check([ArchiveReference(key, "a run")])}
    assert kinds == {(name, "altered"), (key, "missing")}
    moody.kept[name] = pack
    assert list(other.check([ArchiveReference(key, "a run")])) == [] and other.get(key) == b"one"


def test_an_error_of_the_archive_is_the_readers_when_nothing_waits(spooled: SpooledArchive, moody: Moody) -> None:
    moody.error = StoreFailed("unreachable")
    with pytest.raises(StoreFailed, match="unreachable"):
        spooled.get(content_key(b"one"))
    moody.error = None
    assert spooled.get(content_key(b"one")) is None
    with pytest.raises(BadInput):
        spool_of(FolderArchive(Path("x")), Path("y")).get("../up")


def test_a_segment_is_packed_between_two_appends_and_not_during_one(tmp_path: Path) -> None:
    """Whoever packs holds the lock; a writer that comes meanwhile, or afterwards, begins another segment."""
    segments = Segments(tmp_path, durable=True, now=MACHINE)
    segments.append({content_key(b"one"): b"one"})
    (path,) = segment_files(tmp_path)
    with locked_segment(path) as is_locked:
        assert is_locked
        with locked_segment(path) as is_locked_twice:
            assert not is_locked_twice
        segments.append({content_key(b"two"): b"two"})
        assert len(segment_files(tmp_path)) == 2
        path.unlink()
    segments.append({content_key(b"three"): b"three"})
    (path,) = segment_files(tmp_path)
    path.unlink()
    segments.append({content_key(b"four"): b"four"})
    segments.refresh()
    assert [segments.get(content_key(each)) for each in (b"three", b"four")] == [None, b"four"]


def test_writers_and_packers_beside_each_other_lose_nothing(tmp_path: Path) -> None:
    archive, folder, stored = FolderArchive(tmp_path / "archive"), tmp_path / "spool", list[str]()
    writing = threading.Event()
    writing.set()

    def write(number: int) -> None:
        spooled = spool_of(archive, folder)
        for count in range(150):
            stored.append(spooled.store_content_or_raise(b"%d of %d" % (count, number)))

    def pack() -> None:
        while writing.is_set():
            assert spool_of(archive, folder).drain().problem is None

    packers = [threading.Thread(target=pack) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for each in (*packers, *writers):
        each.start()
    for each in writers:
        each.join()
    writing.clear()
    for each in packers:
        each.join()
    last = spool_of(archive, folder)
    assert last.drain().left == 0 and len(stored) == 450
    elsewhere = spool_of(archive, tmp_path / "new")
    assert [key for key in stored if content_key(elsewhere.get(key) or b"") != key] == []


def test_what_an_older_tapebook_left_in_the_spool(moody: Moody, tmp_path: Path) -> None:
    old = FolderArchive(tmp_path / "spool")
    keys = [put_content(old, bytes([number])) for number in range(5)]
    spooled = spool_of(moody, tmp_path / "spool")
    assert [spooled.get(key) for key in keys] == [bytes([number]) for number in range(5)]
    assert spooled.spool_state().objects == 5 and spooled.keys("sha256/") == sorted(keys)
    assert spooled.drain().moved == 5 and set(moody.kept) == set(keys) and spooled.spool_state() == SpoolState()
    assert [spooled.get(key) for key in keys] == [bytes([number]) for number in range(5)]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["keep", "fail", "mend", "drain", "reopen"]), st.integers(0, 5)), max_size=25)
)
def test_nothing_that_was_kept_is_ever_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    moody, folder = Moody(), tmp_path_factory.mktemp("spool")
    spooled, kept = spool_of(moody, folder / "s"), {}
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
            spooled.close()
            spooled = spool_of(moody, folder / "s")
        else:
            does[step](number)
        moody_now, moody.error = moody.error, None
        assert {key: spooled.get(key) for key in kept} == kept
        moody.error = moody_now
    moody.error = None
    spooled.drain()
    assert moody.contents() == kept and spooled.spool_state() == SpoolState()


def test_a_folder_that_went_away_and_came_back(tmp_path: Path) -> None:
    place, away = tmp_path / "archive", tmp_path / "unmounted"
    spooled = spool_of(FolderArchive(place), tmp_path / "spool")
    before = spooled.store_content_or_raise(b"before")
    assert spooled.drain().left == 0
    place.rename(away)
    meanwhile = spooled.store_content_or_raise(b"meanwhile")
    drained = spooled.drain()
    assert drained.left == 1 and isinstance(drained.problem, StoreFailed)
    assert not place.exists(), "an archive that is gone is not made anew in its place"
    assert spooled.get(meanwhile) == b"meanwhile"
    away.rename(place)
    assert spooled.drain().left == 0
    there = spool_of(FolderArchive(place), tmp_path / "new")
    assert [there.get(key) for key in (before, meanwhile)] == [b"before", b"meanwhile"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk(tmp_path: Path) -> None:
    place = tmp_path / "spool"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        spooled = spool_of(FolderArchive(tmp_path / "archive"), place)
        contents = [os.urandom(9_000) for _ in range(20)]
        kept = [spooled.store_content(content) for content in contents]
        assert all(each.problem is None for each in kept), "the archive takes what the spool does not"
        assert [spooled.get(each.key or "") for each in kept] == contents
        subprocess.run(["mount", "-o", "remount,size=1m", str(place)], check=True)
        assert spooled.drain().left == 0 and spooled.spool_state() == SpoolState()
        spooled.close()
        there = spool_of(FolderArchive(tmp_path / "archive"), tmp_path / "new")
        assert [there.get(each.key or "") for each in kept] == contents
    finally:
        subprocess.run(["umount", str(place)], check=True)


WRITER = """
import sys
from pathlib import Path
from tapebook.archive import SpooledArchive
from tapebook.archive.archives.folder import FolderArchive
from tapebook.clock import SystemClock

home, number = Path(sys.argv[1]), int(sys.argv[2])
spooled = SpooledArchive(FolderArchive(home / "archive"), home / "spool", now=SystemClock().now)
while True:
    number += 1
    # Every other time the archive is a file; then it is there again, and takes what waits.
    if number % 8 == 0:
        (home / "archive").rename(home / "away")
        (home / "archive").write_text("no folder")
    if number % 8 == 4 and (home / "away").exists():
        (home / "archive").unlink()
        (home / "away").rename(home / "archive")
        spooled.drain()
    if number % 8 == 6:
        spooled.drain(when_due=True)
    print(spooled.store_content_or_raise(str(number).encode() * 2_000), flush=True)
"""


def test_what_a_killed_process_left_is_as_old_as_its_first_record(moody: Moody, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    began = MACHINE()
    command = [sys.executable, "-c", WRITER, str(tmp_path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT / "src")}) as writer:
        assert writer.stdout and writer.stdout.readline()
        said = MACHINE()
        assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    _mend(tmp_path)
    clock = VirtualClock(said)
    spooled = spool_of(moody, tmp_path / "spool", clock.now)
    for path in segment_files(tmp_path / "spool"):
        os.utime(path, (said / 1_000 + 3_600,) * 2)
    oldest = spooled.spool_state().oldest_ms
    assert oldest is not None and began <= oldest <= said and spooled.drain(when_due=True).moved == 0
    clock.advance(oldest + 6 * HOUR)
    assert spooled.drain(when_due=True).left == 0 and moody.packed_keys()


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
        spooled = spool_of(FolderArchive(tmp_path / "archive"), tmp_path / "spool")
        keys = {line.strip() for line in said if line.endswith("\n")}
        assert [key for key in keys if content_key(spooled.get(key) or b"") != key] == []
    drained = spooled.drain()
    assert (drained.left, drained.problem) == (0, None) and spooled.spool_state() == SpoolState()
    # Another machine has the archive alone.
    elsewhere = spool_of(FolderArchive(tmp_path / "archive"), tmp_path / "new")
    assert len(keys) > 20 and [key for key in keys if content_key(elsewhere.get(key) or b"") != key] == []
    assert list(elsewhere.check(ArchiveReference(key, "a run") for key in keys)) == []


def _mend(home: Path) -> None:
    """Puts the archive back where a killed process has moved it away."""
    if (home / "away").exists():
        (home / "archive").unlink(missing_ok=True)
        (home / "away").rename(home / "archive")
