"""The state of a home, point by point, for `tapebook doctor`."""

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tapebook.archive import Archive, ArchiveReference, SpooledArchive
from tapebook.archive.spool import longest_wait_ms
from tapebook.book.store import Book
from tapebook.clock import Clock, SystemClock
from tapebook.desk.agents import DeploymentDirectory, KnownMarkets
from tapebook.desk.archive_repair import compare_archive
from tapebook.desk.backup import backup_store
from tapebook.desk.processes import role_texts, roles_at_work
from tapebook.desk.verify import archive_references
from tapebook.domain.agent import is_dry_run
from tapebook.domain.market import TRADED_KINDS
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, iso_text
from tapebook.errors import BrokerAway, TapebookError, UnknownName
from tapebook.home import is_running, local_process, places_open_to_others
from tapebook.log import Leases, Log
from tapebook.log.store import is_clock_set_back
from tapebook.settings.config import Config
from tapebook.tape.source import SourceAdapter, SourceChannel, channels_of
from tapebook.tape.store import Tape
from tapebook.tape.view import Channel, RecordedProblem
from tapebook.tick.execute import account_differences
from tapebook.wiring import Rooms

# A day of a busy tape, and room for SQLite to make a copy of a table.
_MIN_FREE_BYTES = 500 * 2**20
# A log of this size was not written back for hours: a reader keeps it open.
_MAX_WAL_BYTES = 512 * 2**20

# What channels are said to come from that no source brings.
_DERIVED = "derived here"

# Problems that are named; how many more there are is said.
_SHOWN = 20

# Kinds of problems that come and go by themselves: they are no failure any more when they have stopped for so long.
_PASSING = frozenset(("connection", "refused", "limited", "complaint"))
_PASSED_AFTER = 5 * MINUTE
_WHAT_TO_DO = {
    "malformed": "the rest was used; if it goes on, the exchange writes another format than this version reads",
    "refused row": "it is not traded or valued on; see [quarantine] of docs/settings.md if it was a real move",
    "connection": "see that the exchange can be reached",
    "refused": "see that the exchange can be reached and what it answers",
    "complaint": "see what the exchange answers",
    "features": "look at the rows of this symbol with `tapebook market`",
}


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


def health_checks(rooms: Rooms, *, thorough: bool = True) -> list[Check]:
    """Every check, in a fixed order.

    Without `thorough` nothing takes longer the older a home is: whether the archive has all that rows name is left
    out, and of the ledger only lines that are new since the last look are summed.
    """
    markets = KnownMarkets(rooms.tape, rooms.clock, rooms.config)
    named = archive_references(rooms.book_db, rooms.tape_db)
    return [
        Check("settings", True, f"{rooms.home / 'tapebook.toml'} (owner {rooms.config.owner})"),
        _private(rooms.home),
        Check("book", True, rooms.book_db.description),
        Check("tape", True, rooms.tape_db.description),
        _streams(rooms.log),
        _cash(rooms.book, from_scratch=thorough),
        _orders(rooms.book),
        *_accounts(rooms),
        _processes(rooms.config, rooms.home, rooms.leases),
        _clock(rooms.tape, rooms.clock),
        *_channels(rooms.tape, rooms.clock, rooms.sources),
        _gaps(rooms.tape),
        *_problems(rooms.tape, rooms.clock, rooms.config, sources=rooms.sources),
        _agents(rooms.book),
        *_watchlists(rooms.book, rooms.tape, markets),
        *_leverage(rooms.book, markets),
        _degraded_runs(rooms.book, rooms.tape, rooms.clock),
        _spool(rooms.archive),
        *([_archive_objects(rooms.archive, rooms.home, named, owner=rooms.config.owner)] if thorough else []),
        _repaired_objects(rooms.archive),
        *_backups(rooms.config, rooms.home),
        _wal(rooms.home),
        _disk(rooms.home),
    ]


def _private(home: Path) -> Check:
    """Whether nobody else may look into the home."""
    found = places_open_to_others(home)
    if not found:
        return Check("private", True, "nobody else may read the home")
    names = ", ".join(str(path) for path in found[:_SHOWN]) + (" and more" if len(found) > _SHOWN else "")
    return Check("private", False, f"others may use {names}: as its owner, run `chmod -R go-rwx {home}`")


def _streams(log: Log) -> Check:
    heads = [(stream, log.head(stream).seq) for stream in log.streams()]
    events = sum(seq for _, seq in heads)
    return Check("log", True, f"{plural(len(heads), 'stream')}, {plural(events, 'event')}")


def _cash(book: Book, *, from_scratch: bool) -> Check:
    differences = book.cash_differences(from_scratch=from_scratch)
    return Check("cash", not differences, "; ".join(differences) or "equals the ledger's sum in every deployment")


def _orders(book: Book) -> Check:
    """Whether the broker's answer to every order is known."""
    lost = [f"{each.deployment} {each.order.client_id}: {each.detail}" for each in book.unanswered_orders()]
    return Check("orders", not lost, "; ".join(lost) or "the broker's answer to every order is known")


def _accounts(rooms: Rooms) -> list[Check]:
    """Accounts that are not at the broker what they are in the book, or that it does not say anything of."""
    found, directory = [], DeploymentDirectory(rooms.book, rooms.work, rooms.broker)
    for name, _ in rooms.book.deployments():
        deployment = None if is_dry_run(name) else directory.opened_deployment(name)
        # Without an exchange account, what a broker says is computed from the book: they cannot differ.
        broker = None if deployment is None else rooms.broker(deployment.agent.broker)
        if deployment is None or broker is None or broker.account is None:
            continue
        try:
            texts = account_differences(rooms.book, rooms.tape, deployment, broker=broker, clock=rooms.clock)
        except (BrokerAway, UnknownName) as error:
            texts = [str(error)]
        found += [Check("accounts", False, f"{name}: {text}") for text in texts]
    return found


def _processes(config: Config, home: Path, leases: Leases) -> Check:
    """Which processes are at work: all roles of the home here, and those elsewhere that hold an agent's lease."""
    roles = roles_at_work(home)
    workers = {each.process for each in roles if each.role == "worker"}
    agents, others = Counter[int](), list[str]()
    for name, count in sorted(Counter(leases.holders(config.owner)).items()):
        process = local_process(name)
        if process is not None and process in workers:
            agents[process] += count
        # A lease outlives a process that was killed, until another worker takes it over.
        elif process is None or is_running(process):
            others.append(f"worker {name} with {plural(count, 'agent')}")
    detail = ", ".join(role_texts(roles, agents) + others)
    # A role that is down is being waited for; how often one was started again is said, and no failure by itself.
    is_well = all(each.process is not None for each in roles)
    return Check("processes", is_well, detail or "none: nothing is decided until `tapebook up`")


def _clock(tape: Tape, clock: Clock) -> Check:
    """Whether the clock was set back in the last day, and whether what is stored is ahead of it."""
    now, head = clock.now(), tape.head()[1]
    backs = [back for back in tape.set_backs() if back.known_at > now - DAY]
    if backs:
        jumps = [
            f"from {iso_text(back.known_before)[:19]} to {iso_text(back.known_at)[:19]}" for back in backs[-_SHOWN:]
        ]
        what = "rows and decisions of the time in between are left out; see that NTP keeps the clock right"
        often = plural(len(backs), "time")
        return Check("clock", False, f"set back {often} in the last day ({'; '.join(jumps)}): {what}")
    machine = SystemClock().now()
    if not clock.never_goes_back and is_clock_set_back(head, machine):
        ahead = (head - machine) // SECOND
        return Check("clock", True, f"the tape is {ahead} s ahead of this machine: so is a world that runs faster")
    return Check("clock", True, f"{iso_text(max(now, head))[:19]}; not set back in the last day")


def _channels(tape: Tape, clock: Clock, sources: Sequence[SourceAdapter]) -> list[Check]:
    """Each channel of the market, source by source: what it delivered, and whether it is still fresh."""
    found = tape.channels()
    now = _now(clock, found)
    if not found:
        return [Check("market", True, "the tape is empty: nothing has been ingested yet")]
    declared, origins = channels_of(sources), _origins(sources)
    # In the order of the settings, then what is derived, then what nobody delivers any more.
    places = {origin: place for place, origin in enumerate([*(source.name for source in sources), _DERIVED, ""])}
    found = sorted(found, key=lambda channel: places[origins.get(channel.name, "")])
    return [
        *(
            _channel(channel, declared.get(channel.name), origin=origins.get(channel.name, ""), now=now)
            for channel in found
        ),
        *_silent_sources(tape, sources, {channel.name for channel in found if channel.newest_known_at}, now),
    ]


def _silent_sources(tape: Tape, sources: Sequence[SourceAdapter], heard: Collection[str], now: int) -> Iterator[Check]:
    """Sources of which nothing has come while others are listened to; wrong once a row would be stale."""
    listens_since = tape.first_known_at()
    for source in sources if heard else ():
        if not any(channel.name in heard for channel in source.channels):
            patience = max(channel.stale_after_ms for channel in source.channels)
            detail = f"nothing has come yet, {source.name}: `tapebook ingest` asks it, and problems say why it fails"
            yield Check(f"source {source.name}", now - listens_since <= patience, detail)


def _origins(sources: Sequence[SourceAdapter]) -> dict[str, str]:
    """Which source brings a channel; those that are derived of all of them are this program's."""
    derived = dict.fromkeys(channels_of(sources), _DERIVED)
    return derived | {channel.name: source.name for source in sources for channel in source.channels}


def _now(clock: Clock, channels: Iterable[Channel]) -> int:
    # A world that runs faster than real time can be ahead of the machine's clock.
    return max([clock.now(), *(channel.newest_known_at for channel in channels)])


def _channel(channel: Channel, declared: SourceChannel | None, *, origin: str, now: int) -> Check:
    name, rows = f"channel {channel.name}", plural(channel.rows, "row")
    if not channel.newest_known_at:
        return Check(name, True, f"imported: {rows}")
    age = now - channel.newest_known_at
    if declared is None:
        return Check(name, True, f"{rows}, known {age // 1000} s ago: no source of the settings delivers it any more")
    fresh = age <= declared.stale_after_ms
    state = "fresh" if fresh else "stale"
    newest = f"newest {iso_text(channel.newest_bucket_ts)}, known {age // 1000} s ago"
    return Check(name, fresh, f"{state}: {rows}, {newest}, {origin}")


def _gaps(tape: Tape) -> Check:
    open_now, filled = tape.gap_count(), tape.filled_gap_count()
    return Check("gaps", True, f"{open_now or 'none'} open" + (f", {filled} filled" if filled else ""))


def _problems(tape: Tape, clock: Clock, config: Config, *, sources: Sequence[SourceAdapter]) -> list[Check]:
    """What of the market could not be used in the last day, a line each with what to do; the rest of it was used."""
    now = max(clock.now(), tape.head()[1])
    by_name, section = {source.name: source for source in sources}, config.source_section
    found = [(by_name.get(each.problem.source), each) for each in tape.problems(since=now - DAY)]
    found = [
        (source, each)
        for source, each in found
        if source is None or source.is_current(section(source.name), each.problem)
    ]
    found.sort(key=lambda each: each[1].problem.source)
    shown = [_problem(each, source.remedies if source else {}, now) for source, each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        shown.append(Check("problems", False, f"and {len(found) - _SHOWN} more in the last day"))
    return shown or [Check("problems", True, "none in the last day")]


def _problem(found: RecordedProblem, remedies: Mapping[str, str], now: int) -> Check:
    kind, subject = found.problem.kind, found.problem.subject
    times = f"{plural(found.times, 'time')}, last {iso_text(found.last_at)[:19]}"
    name = f"{found.problem.source}: {f'{kind} {subject}'.strip()} ({times})"
    advice = remedies.get(kind) or _WHAT_TO_DO.get(kind)
    detail = f"{name}: {found.problem.said}" + (f"; {advice}" if advice else "")
    return Check("problems", kind in _PASSING and now - found.last_at > _PASSED_AFTER, detail)


def _agents(book: Book) -> Check:
    names = [profile.name for _, profile in book.agents()]
    gone = [profile.name for _, profile in book.agents(removed=True) if profile.name not in names]
    # What was decided in the moment of a removal may have become a position after it.
    holding = [name for name in gone if any(book.has_exposure(each) for each, _ in book.deployments(name))]
    if holding:
        warnings = [f"{name} was removed and holds something: `tapebook flatten {name}` closes it" for name in holding]
        return Check("agents", False, "; ".join(warnings))
    return Check("agents", bool(names), ", ".join(names) or "no agent yet")


_UNHEARD = "of which the tape has nothing"


def _watchlists(book: Book, tape: Tape, markets: KnownMarkets) -> list[Check]:
    """The symbols that agents watch and nobody has heard of: the registry, or the tape once it has heard of any."""
    known = set(tape.symbols(*TRADED_KINDS))
    agents = [profile for _, profile in book.agents() if profile.enabled]
    watchers = dict[str, list[str]]()
    unlisted = {symbol for profile in agents for symbol in markets.unknown_symbols(profile)}
    for profile in agents:
        for symbol in profile.watchlist:
            if symbol in unlisted or (known and symbol not in known):
                watchers.setdefault(symbol, []).append(profile.name)
    what = "correct its watchlist, or let it be ingested or imported"
    unheard = {
        symbol: f"which {markets.why_unknown(symbol)}; {what}" if symbol in unlisted else f"{_UNHEARD}: {what}"
        for symbol in watchers
    }
    return [
        Check("watchlists", False, f"{', '.join(watchers[symbol])} watches {symbol}, {unheard[symbol]}")
        for symbol in sorted(watchers)
    ]


def _leverage(book: Book, markets: KnownMarkets) -> list[Check]:
    """Agents that may ask for more leverage than is given."""
    agents = [profile for _, profile in book.agents() if profile.enabled]
    return [
        Check("leverage", False, f"{profile.name}: {words}; lower it with `tapebook agents edit {profile.name}`")
        for profile in agents
        for words in markets.leverage_warnings(profile)
    ]


def _degraded_runs(book: Book, tape: Tape, clock: Clock) -> Check:
    """What decisions of the last day had to do without, how often, and why the newest of them did."""
    runs = book.degraded_runs(since=_now(clock, tape.channels()) - DAY)
    if not runs:
        return Check("memory", True, "no decision of the last 24 h lacked anything")
    counts: Counter[str] = Counter()
    newest: dict[str, str] = {}
    for _, causes in runs:
        cause_by_name = dict(cause.partition(": ")[::2] for cause in reversed(causes))
        counts.update(cause_by_name.keys())
        newest = cause_by_name | newest
    texts = [f"{name} ×{count} ({newest[name]})" for name, count in counts.most_common()]
    return Check("memory", False, f"degraded in the last 24 h: {', '.join(texts)}; newest run {runs[0][0]}")


# Missing objects that are named.
_SHOWN_OBJECTS = 5
# The librarian comes by every few minutes, packs what is due, and is busy with other things too.
_LATE_MINUTES, _LATE_BACKUP_MINUTES = 30, 90


def _spool(archive: SpooledArchive) -> Check:
    """What waits for the archive, since when, and whether it can go there."""
    waits, broken = archive.spool_state(), archive.write_problem()
    if waits.oldest_ms is None:
        return Check("spool", broken is None, broken or "nothing waits for the archive")
    # Segments know the machine's time, whatever the clock of the home is.
    minutes = max(0, SystemClock().now() - waits.oldest_ms) // MINUTE
    is_late = minutes >= max(HOUR, longest_wait_ms(waits.objects)) // MINUTE + _LATE_MINUTES
    size = f"{waits.bytes / 1_000:,.1f} kB"
    detail = f"waiting for the archive: {plural(waits.objects, 'object')} ({size}), the oldest for {minutes} min"
    # Here they are as safe as in a folder beside them; an archive elsewhere is there for when this machine is not.
    if broken is None and (archive.is_local or not is_late):
        return Check("spool", True, f"{detail}; the librarian packs them")
    why = f" ({broken})" if broken else ""
    return Check("spool", False, f"{detail}{why}: see that it can be written, then `tapebook doctor --fix` moves them")


def _archive_objects(
    archive: SpooledArchive, home: Path, references: Iterable[ArchiveReference], *, owner: str
) -> Check:
    """Whether the archive has what rows name, and how much it has that none does."""
    try:
        found = compare_archive(archive, home, references, owner=owner)
    except (TapebookError, OSError) as error:
        return Check("objects", False, f"the archive could not be looked through: {error}")
    unnamed = f"; {plural(found.unnamed, 'object')} that no row names" if found.unnamed else ""
    if not found.missing:
        return Check("objects", True, f"all {plural(found.named, 'object')} that rows name are there{unnamed}")
    names = ", ".join(each.by for each in found.missing[:_SHOWN_OBJECTS])
    fix = "`tapebook doctor --fix` brings back what a backup, the book or the tape still has"
    return Check("objects", False, f"missing: {plural(len(found.missing), 'object')} ({names}){unnamed}: {fix}")


def _backups(config: Config, home: Path) -> list[Check]:
    """How old the newest backup is, where the settings ask for them."""
    settings = config.backup
    if not settings.place:
        return []
    try:
        store = backup_store(home, settings.place)
        newest = store.manifest().made_at if store.ids() else None
    except (TapebookError, OSError) as error:
        return [Check("backups", False, f"cannot be read: {error}")]
    if newest is None:
        return [Check("backups", False, f"none in {settings.place} yet: run `tapebook up`, or `tapebook backup`")]
    minutes = max(0, SystemClock().now() - newest) // MINUTE
    late = minutes > settings.every_minutes + _LATE_BACKUP_MINUTES
    advice = ": see that `tapebook up` runs and can write there" if late else ""
    return [Check("backups", not late, f"the newest in {settings.place} is {minutes} min old{advice}")]


def _repaired_objects(archive: Archive) -> Check:
    """Objects of the archive that were torn or altered and could be replaced by the right bytes."""
    healed = archive.repaired_objects()
    if not healed:
        return Check("archive", True, "no damaged object had to be replaced; `tapebook verify` looks for others")
    names = ", ".join(healed[:_SHOWN]) + (f" and {len(healed) - _SHOWN} more" if len(healed) > _SHOWN else "")
    return Check("archive", True, f"replaced by the right bytes: {plural(len(healed), 'damaged object')}: {names}")


def _wal(home: Path) -> Check:
    sizes = {path.name: path.stat().st_size for path in sorted(home.glob("*.db-wal"))}
    text = ", ".join(f"{name} {size / 2**20:.1f} MB" for name, size in sizes.items()) or "none"
    return Check("write-ahead logs", all(size < _MAX_WAL_BYTES for size in sizes.values()), text)


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    return Check("disk", free > _MIN_FREE_BYTES, f"{free / 2**30:.1f} GB free")
