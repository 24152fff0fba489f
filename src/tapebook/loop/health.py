"""The state of a home, point by point, for `tapebook doctor`."""

import shutil

import msgspec

from tapebook.domain.instants import HOUR, MINUTE, iso
from tapebook.tape.store import Channel
from tapebook.wiring import Rooms

_MIN_FREE_BYTES = 500 * 2**20
_MAX_WAL_BYTES = 512 * 2**20

STALE_AFTER = {
    "mids": MINUTE,
    "candles": 5 * MINUTE,
    "contexts": 5 * MINUTE,
    "predicted": 5 * MINUTE,
    "funding": 2 * HOUR,
    **dict.fromkeys(("books", "volatility", "pressure", "positioning"), 15 * MINUTE),
}
"""How old the newest row of a channel may be before it counts as stale: about three missed deliveries."""


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


def checks(rooms: Rooms) -> list[Check]:
    """Every check, in a fixed order."""
    return [
        Check("settings", True, f"{rooms.home / 'tapebook.toml'} (owner {rooms.config.owner})"),
        Check("book", True, rooms.book_db.description),
        Check("tape", True, rooms.tape_db.description),
        _streams(rooms),
        _cash(rooms),
        _orders(rooms),
        *_channels(rooms),
        _gaps(rooms),
        _agents(rooms),
        _wal(rooms),
        _disk(rooms),
    ]


def _streams(rooms: Rooms) -> Check:
    heads = [(stream, rooms.log.head(stream).seq) for stream in rooms.log.streams()]
    events = sum(seq for _, seq in heads)
    return Check("log", True, f"{len(heads)} streams, {events} events")


def _cash(rooms: Rooms) -> Check:
    differences = rooms.book.cash_differences()
    return Check("cash", not differences, "; ".join(differences) or "equals the ledger's sum in every deployment")


def _orders(rooms: Rooms) -> Check:
    """Whether the broker's answer to every order is known."""
    lost = [f"{each.deployment} {each.order.client_id}: {each.detail}" for each in rooms.book.unanswered_orders()]
    return Check("orders", not lost, "; ".join(lost) or "the broker's answer to every order is known")


def _channels(rooms: Rooms) -> list[Check]:
    """Each channel of the market: what it delivered, and whether it is still fresh."""
    found = rooms.tape.channels()
    now = max([rooms.clock.now(), *(channel.newest_known_at for channel in found)])
    if not found:
        return [Check("market", True, "the tape is empty: nothing has been ingested yet")]
    return [_channel(channel, now) for channel in found]


def _channel(channel: Channel, now: int) -> Check:
    if not channel.newest_known_at:
        return Check(f"channel {channel.name}", True, f"imported: {channel.rows} rows")
    age = now - channel.newest_known_at
    fresh = age <= STALE_AFTER[channel.name]
    state = "fresh" if fresh else "stale"
    detail = f"{state}: {channel.rows} rows, newest {iso(channel.newest_bucket_ts)}, known {age // 1000} s ago"
    return Check(f"channel {channel.name}", fresh, detail)


def _gaps(rooms: Rooms) -> Check:
    count = rooms.tape.gap_count()
    return Check("gaps", True, f"{count} open" if count else "none open")


def _agents(rooms: Rooms) -> Check:
    names = [profile.name for _, profile in rooms.book.agents()]
    return Check("agents", bool(names), ", ".join(names) or "no agent yet")


def _wal(rooms: Rooms) -> Check:
    sizes = {path.name: path.stat().st_size for path in sorted(rooms.home.glob("*.db-wal"))}
    text = ", ".join(f"{name} {size / 2**20:.1f} MB" for name, size in sizes.items()) or "none"
    return Check("write-ahead logs", all(size < _MAX_WAL_BYTES for size in sizes.values()), text)


def _disk(rooms: Rooms) -> Check:
    free = shutil.disk_usage(rooms.home).free
    return Check("disk", free > _MIN_FREE_BYTES, f"{free / 2**30:.1f} GB free")
