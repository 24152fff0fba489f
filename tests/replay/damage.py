"""Damage done to a desk's home, and how it is told whether `tapebook verify` had to notice it.

A home is copied, damaged in one way, and verified by the command. Whether a damage is harmless is decided by what the
home says: every row of every table, the schema, and the content of every object of the archive are read before and
after. Equal means that a bit was hit that nobody reads: a free page, unused space in a page, a counter in a header.
Leases are left out: they mean nothing once their process is gone. A file that cannot be read is not equal.
"""

import os
import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from tapebook.anchors import anchor_heads
from tapebook.archive import put_cold
from tapebook.desk import document_writes
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import AssetContext, Candle, FeatureRow, FundingRate, Gap, Liquidity, PredictedFunding
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import Damaged
from tapebook.ingest.compaction import retention_by_channel
from tapebook.log import Stream
from tapebook.log.event import Draft, chain_events
from tapebook.tape.families import MIDS
from tapebook.tape.recording import Recorder
from tapebook.tape.retention import retire_rows
from tapebook.tape.seals import SealWriter
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply
from tests.replay.home_fingerprint import archived

Verdict = Literal["noticed", "harmless", "missed"]
DATABASES = ("book.db", "tape.db")
FEATURES = ("volatility", "pressure", "positioning")
_NOT_COMPARED = {"leases"}


# What lies in files beside the databases: objects by themselves, packs, anchors, and what is not packed yet.
_IN_FILES = ("archive/cold", "archive/packs", "archive/anchors", "spool")


class Damage(msgspec.Struct, frozen=True):
    """One way to damage a home: its kind, what it is done to, and what does it, given the copy and an older home."""

    kind: str
    target: str
    detail: str
    strike: Callable[[Path, Path], None]


def make_homes(folder: Path) -> tuple[Path, Path]:
    """A desk's home that has traded, learned, archived and anchored; and a copy of it from some hours before."""
    home, older = folder / "home", folder / "older"
    with desk(home, settings="[archive]\nraw = true\n") as floor:
        agent = floor.hire(AgentProfile("a", ("BTC", "ETH"), cadence_ms=5 * MINUTE, shadow=None))
        recorder = Recorder(floor.rooms.tape_db, floor.rooms.archive.store_content_or_raise)
        for turn in range(24):
            _market(floor, turn)
            recorder(floor.clock.now(), f'{{"turn":{turn}}}')
            side = ("long", "short")[turn // 3 % 2]
            action = (reply("open", side, 400), reply("hold"), reply("close"))[turn % 3]
            floor.say(agent, action)
            floor.later(10_000, BTC=100 + turn % 7, ETH=10)
            floor.work(agent)
            floor.later(10 * MINUTE)
            if turn in (7, 15):
                retire_rows(
                    floor.rooms.tape_db,
                    partial(put_cold, floor.rooms.archive),
                    keep={**retention_by_channel(floor.rooms.config)}
                    | {"mids": HOUR, "candles_60": HOUR, "commits": HOUR},
                    now=floor.clock.now(),
                    watched=lambda: ("BTC", "ETH"),
                )
                # What was decided until now is in packs, what comes behind it in a segment.
                floor.rooms.archive.drain()
                anchor_heads(floor.rooms)
            if turn == 15:
                recorder.close()
                document_writes.append_entry(floor.rooms, "a", "journal", "a thought", by="owner")
                # What was decided until now is in packs, what comes behind it in a segment.
                floor.rooms.archive.drain()
                anchor_heads(floor.rooms)
                _settle(floor, home, older)
        anchor_heads(floor.rooms)
    return home, older


def _settle(floor: Desk, home: Path, older: Path) -> None:
    for db in (floor.rooms.book_db, floor.rooms.tape_db):
        db.all(sql("PRAGMA wal_checkpoint(TRUNCATE)"))
    shutil.copytree(home, older)


def _market(floor: Desk, turn: int) -> None:
    at = floor.clock.now() - floor.clock.now() % MINUTE
    for symbol, price in (("BTC", 100 + turn % 7), ("ETH", 10)):
        e8 = price * 10**8
        minutes = [at - back * MINUTE for back in range(10, 0, -1)]
        floor.rooms.tape.commit(
            [
                *(Candle(symbol, 60, minute, e8, e8, e8, e8, 1.5, 2.5, 3) for minute in minutes),
                Liquidity(symbol, at, e8, 1.5, 1e5, 2e5, 3e5, 0.25),
                AssetContext(symbol, at, 1, 2, 3.5, e8, e8),
                FundingRate(symbol, at - at % HOUR, 12, 0),
                PredictedFunding(symbol, at, "HlPerp", 5, 1, at + HOUR),
                *(FeatureRow(symbol, at, '{"regime":"range"}', name) for name in FEATURES),
            ],
            gaps=[Gap("hyperliquid", "mids", symbol, at - MINUTE, at, "away")],
        )
    floor.quote(BTC=100 + turn % 7, ETH=10)


def content(home: Path) -> object:
    """All that a home says."""
    kept = {"archive": _objects(home / "archive"), "content": archived(home)}
    return {name: _tables(home / name) for name in DATABASES} | kept


def _tables(path: Path) -> object:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        if list(db.execute("PRAGMA integrity_check")) != [("ok",)]:
            return "broken"
        schema = sorted(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"), key=repr)
        names = [name for kind, name, *_ in schema if kind == "table" and name not in _NOT_COMPARED]
        return schema, {name: sorted(map(repr, db.execute(f"SELECT * FROM {name}"))) for name in names}


def _objects(root: Path) -> object:
    cold = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.parquet")}
    return {str(path.relative_to(root)): _unpacked(path) for path in root.rglob("*.z")} | cold


def _unpacked(path: Path) -> bytes:
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(path.read_bytes())
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("torn")
    return found


def is_harmless(before: object, home: Path) -> bool:
    """Whether a home says what it said before; what cannot be read says nothing."""
    try:
        return content(home) == before
    except (apsw.Error, UnicodeDecodeError, zlib.error, ValueError, OSError, Damaged):
        return False


def flips(seed: int, home: Path, count: int) -> Iterator[Damage]:
    """Single bits of the databases, of objects and of anchors, in bytes that hold something: most zeros are unused."""
    chance = random.Random(seed)
    places = [*DATABASES, *_IN_FILES]
    for number in range(count):
        target = places[number % len(places)]
        file = chance.choice(_files(home, target))
        held = file.read_bytes()
        offset, bit = chance.choice([place for place, byte in enumerate(held) if byte]), chance.randrange(8)
        name = file.relative_to(home)

        def strike(copy: Path, _: Path, name: Path = name, offset: int = offset, bit: int = bit) -> None:
            _patch(copy / name, offset, bytes([(copy / name).read_bytes()[offset] ^ 1 << bit]))

        yield Damage("flip", target, f"{name} at {offset}, bit {bit}", strike)


def _files(home: Path, target: str) -> list[Path]:
    kind = {"spool": "*.seg", "archive/cold": "*.parquet"}.get(target, "*.z")
    return [home / target] if target in DATABASES else sorted((home / target).rglob(kind))


def _patch(file: Path, offset: int, content: bytes) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        opened.write(content)


def zeroed_pages(seed: int, home: Path, count: int) -> Iterator[Damage]:
    """Whole pages of a database that come back as zeros."""
    chance = random.Random(seed)
    for number in range(count):
        target = DATABASES[number % 2]
        page = chance.randrange((home / target).stat().st_size // 4_096)

        def strike(copy: Path, _: Path, target: str = target, page: int = page) -> None:
            _patch(copy / target, page * 4_096, bytes(4_096))

        yield Damage("zeroed page", target, f"page {page + 1}", strike)


def truncations(seed: int, home: Path, count: int) -> Iterator[Damage]:
    """Files that end too early."""
    chance = random.Random(seed)
    places = [*DATABASES, *_IN_FILES]
    for number in range(count):
        target = places[number % len(places)]
        file = chance.choice(_files(home, target))
        size, name = chance.randrange(file.stat().st_size), file.relative_to(home)

        def strike(copy: Path, _: Path, name: Path = name, size: int = size) -> None:
            os.truncate(copy / name, size)

        yield Damage("truncation", target, f"{name} to {size} bytes", strike)


def deletions(seed: int, home: Path, count: int) -> Iterator[Damage]:
    """Rows of any table, objects and anchors that are gone."""
    chance = random.Random(seed)
    tables = [(name, table) for name in DATABASES for table in _filled_tables(home / name)]
    chance.shuffle(tables)
    for number in range(count):
        if number % 3:
            target = _IN_FILES[(number // 3 * 2 + number % 3) % len(_IN_FILES)]
            name = chance.choice(_files(home, target)).relative_to(home)

            def strike(copy: Path, _: Path, name: Path = name) -> None:
                (copy / name).unlink()

            yield Damage("deletion", target, str(name), strike)
            continue
        target, table = tables[number // 3 % len(tables)]

        yield Damage("deletion", target, f"a row of {table}", _row_deleted(target, table, chance.randrange(99)))


def _row_deleted(target: str, table: str, place: int) -> Callable[[Path, Path], None]:
    def strike(copy: Path, _: Path) -> None:
        with closing(apsw.Connection(str(copy / target))) as db:
            rows = list(db.execute(f"SELECT * FROM {table}"))
            names = [about[1] for about in db.execute(f"PRAGMA table_info({table})")]
            chosen = " AND ".join(f"{name} IS ?" for name in names)
            db.execute(f"DELETE FROM {table} WHERE {chosen}", rows[place % len(rows)])

    return strike


def _filled_tables(path: Path) -> list[str]:
    with closing(apsw.Connection(str(path))) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        compared = [name for name in names if name not in _NOT_COMPARED]
        return [name for name in compared if list(db.execute(f"SELECT 1 FROM {name} LIMIT 1"))]


def forgeries(home: Path) -> Iterator[Damage]:
    """Well-formed lies: another packet, reply or document, another anchor, another event or price with its hash."""
    for file in _files(home, "archive/cold")[::3]:
        yield Damage("forgery", "archive/cold", f"other content of {file.name}", _replaced(file.relative_to(home)))
    for file in _files(home, "archive/anchors"):
        yield Damage("forgery", "archive/anchors", f"another {file.name}", _reworded(file.relative_to(home)))
    yield Damage("forgery", "book.db", "the newest event of a stream, chained anew", _forge_event)
    yield Damage("forgery", "book.db", "an event of a stream and all after it, chained anew", _forge_history)
    yield Damage("forgery", "tape.db", "a price, with its checksum", _forge_price)


def _replaced(name: Path) -> Callable[[Path, Path], None]:
    return lambda copy, _: _write(copy / name, zlib.compress(b"buy everything"))


def _reworded(name: Path) -> Callable[[Path, Path], None]:
    def strike(copy: Path, _: Path) -> None:
        body = msgspec.json.decode(_unpacked(copy / name))
        _write(copy / name, zlib.compress(msgspec.json.encode(body | {"written_at": body["written_at"] + 1})))

    return strike


def _write(file: Path, packed: bytes) -> None:
    file.unlink()
    file.write_bytes(packed)


def _forge_event(copy: Path, _: Path) -> None:
    _rewrite(copy, last=1)


def _forge_history(copy: Path, _: Path) -> None:
    _rewrite(copy, last=10)


def _rewrite(copy: Path, *, last: int) -> None:
    """Moves the last events of the deployment a millisecond back and computes hashes and tables anew."""
    with desk(copy) as floor:
        stream = next(each for each in floor.rooms.log.streams() if each.deployment and each.owner == "local")
        events = list(floor.rooms.log.events(Stream(stream.owner, stream.deployment)))
        previous, db = events[-last - 1].hash, floor.rooms.book_db
        for event in events[-last:]:
            draft = Draft(event.kind, event.happened_at - 1, event.body, event.schema)
            (forged,) = chain_events(previous, [draft], stream=stream, seq=event.seq - 1, known_at=event.known_at)
            previous = forged.hash
            change = sql("UPDATE log_events SET happened_at = :at, hash = :hash WHERE deployment = :d AND seq = :seq")
            db.execute(change, at=forged.happened_at, hash=forged.hash, d=stream.deployment, seq=event.seq)


def _forge_price(copy: Path, _: Path) -> None:
    with desk(copy) as floor:
        db = floor.rooms.tape_db
        with db.transaction():
            (chunk,) = db.all(sql(f"SELECT MAX(chunk) FROM {MIDS.table}"))[0]
            seals, rows = SealWriter(db), db.all(MIDS.queries.whole_chunk, chunk=chunk)
            for seq in {row[-1] for row in rows}:
                seals.remove_rows(MIDS, [row for row in rows if row[-1] == seq], granularity_sec=0, chunk=chunk)
            db.execute(sql(f"UPDATE {MIDS.table} SET price_e8 = price_e8 * 10 WHERE chunk = :chunk"), chunk=chunk)
            forged = sorted(db.all(MIDS.queries.whole_chunk, chunk=chunk), key=MIDS.key_of)
            for seq in sorted({row[-1] for row in forged}):
                seals.add_rows(MIDS, [row for row in forged if row[-1] == seq], seq=seq)


def rollbacks() -> Iterator[Damage]:
    """Parts of the home put back from an older copy of it."""
    for target in (*DATABASES, "archive", "archive/anchors", "spool"):

        def strike(copy: Path, older: Path, target: str = target) -> None:
            if target in DATABASES:
                for beside in ("-wal", "-shm"):
                    Path(f"{copy / target}{beside}").unlink(missing_ok=True)
                shutil.copy(older / target, copy / target)
            else:
                shutil.rmtree(copy / target)
                shutil.copytree(older / target, copy / target)

        yield Damage("rollback", target, "an older copy", strike)


def every_damage(home: Path, *, seed: int, size: int) -> Iterator[Damage]:
    """`size` flips, a tenth as many zeroed pages, truncations and deletions each, all forgeries and rollbacks."""
    yield from flips(seed, home, size)
    for kind in (zeroed_pages, truncations, deletions):
        yield from kind(seed, home, max(4, size // 10))
    yield from forgeries(home)
    yield from rollbacks()
