"""The packet: what gathering and assembling one costs at the highest settings, in a book of a thousand and of a million
trades, and how its sections keep their caps.

The floor of a large book is the small one, measured in the same run: nothing of a tick may follow
the size of its tables. Rows go straight into the projections, one of each kind per trade, all in one
deployment; the newest hour and day are the same in both.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

from bench.figure import Figure, seconds
from tapebook.clock import VirtualClock
from tapebook.context import MarketCache, PacketCaches, Situation, assemble_packet, preview_packet
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, ExperienceRow, LayerRow, Lessons
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, Mid, Observation
from tapebook.domain.packet import Citation, Packet
from tapebook.domain.run import Watermarks
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.home import make_home
from tapebook.tape.bars import roll_up
from tapebook.tick.prepare import gather_situation
from tapebook.wiring import Rooms

NOON = 1_767_571_200_000 + 12 * HOUR
SMALL, LARGE = 1_000, 1_000_000
SYMBOLS = ("BTC", "ETH", "HYPE", "SOL", "kPEPE")
OPEN = ("BTC", "ETH", "HYPE")
EVERY = 5 * MINUTE
"""One trade each five minutes."""

_WORDS = "the close broke above the range of the last day while funding stayed low and the book was deep on the bid"
_MANUAL = "\n".join(f"{number}. Never add to a position that loses more than it may." for number in range(1, 30))
AGENT = AgentProfile(
    "bench",
    SYMBOLS,
    strategy="Follow the trend of the five-minute bars; leave when it is gone. " * 20,
    avoid=("average down on a losing position", "hold over the weekly close"),
    context=ContextProfile(bar_count=100, recent_trades_k=30),
    manual=_MANUAL,
)
DEPLOYMENT = Deployment("local", "bench.paper", AGENT, 1)


def run() -> list[Figure]:
    """All figures of the packet."""
    with tempfile.TemporaryDirectory() as folder:
        small, _ = _measured(Path(folder) / "small", SMALL)
        large, packet = _measured(Path(folder) / "large", LARGE)
    figures = []
    for name, aim in (("warm", "≤ 1,500"), ("market shared", "≤ 1,000"), ("market read and drawn", "≤ 3,000")):
        figures.append(Figure(f"packet, {name}, {SMALL:,} trades", small[name], "µs", aim=aim))
        ratio = small[name] / large[name]
        figures.append(Figure(f"packet, {name}, {LARGE:,} trades", large[name], "µs", small[name], ratio, "≥ 0.83"))
    return [*figures, *_tokens(packet)]


def _tokens(packet: Packet) -> list[Figure]:
    """Every part of the fullest packet against its cap."""
    shown = preview_packet(packet)
    parts = [(part.name, part.tokens, part.cap, part.dropped) for part in shown.parts]
    parts += [("memory together", shown.memory_tokens, shown.memory_cap, 0), ("packet", shown.tokens, None, 0)]
    return [
        Figure(f"tokens of {name}{f' ({dropped} rows dropped)' if dropped else ''}", tokens, "tokens", aim=_most(cap))
        for name, tokens, cap, dropped in parts
    ]


def _most(cap: int | None) -> str:
    return "" if cap is None else f"≤ {cap:,}"


def _measured(home: Path, trades: int) -> tuple[dict[str, float], Packet]:
    """Microseconds of a packet, and the packet."""
    make_home(home)
    clock = VirtualClock(NOON)
    rooms = Rooms(home, clock=clock)
    write_market(rooms)
    print(f"  {trades:,} trades written in {seconds(lambda: _fill(home / 'book.db', trades)):.0f} s", flush=True)
    known = Watermarks(tape=rooms.tape.head()[0], book=rooms.book.head(DEPLOYMENT.id))
    shelf, caches = MarketCache(), PacketCaches()

    # What stays from one tick to the next is `bench.ticks`' to measure; here all of it is drawn, and all but the warm
    # one is read: another generation of the log is trusted in nothing.
    def warm() -> Packet:
        caches.own.clear()
        return assemble_packet(
            _full(gather_situation(rooms, DEPLOYMENT, "BTC", as_of=NOON, watermarks=known, shelf=shelf)), caches
        )

    def shared() -> Packet:
        rooms.log.generation += 1
        return warm()

    def alone() -> Packet:
        rooms.log.generation += 1
        return assemble_packet(_full(gather_situation(rooms, DEPLOYMENT, "BTC", as_of=NOON, watermarks=known)))

    packet = shared()
    assert packet == alone() == warm()
    found = packet.section("recent_trades")
    assert found is not None and len(found.rows) + found.dropped == 30
    times: dict[str, Callable[[], Packet]] = {"warm": warm, "market shared": shared, "market read and drawn": alone}
    # The best of many: a busy machine adds to a time and never takes from it.
    measured = {name: 1e6 * min(seconds(work) for _ in range(600)) for name, work in times.items()}
    rooms.close()
    return measured, packet


def _full(situation: Situation) -> Situation:
    """The situation with the memories that other rooms fill, each with more than fits."""
    return msgspec.structs.replace(
        situation,
        lessons=Lessons(tuple(f"{number} of 40: {_WORDS}" for number in range(20)), "f" * 16),
        experience=tuple(ExperienceRow("record", f"trend {n}", "n=41, won 52 % [37, 67]") for n in range(30)),
        horizons=tuple(LayerRow("L6", f"2026-06-{n:02d}", "total_pnl_usd", "-12.50") for n in range(1, 30)),
        citations=tuple(Citation("journal/day.md", n, n + 9, 8_200, _WORDS, "fts", f"c{n}", "") for n in range(1, 20)),
    )


def write_market(rooms: Rooms) -> None:
    """A day of one-minute bars and books of every symbol, and its features."""
    rows: list[Observation] = []
    for symbol in SYMBOLS:
        minutes = [_bar(symbol, at) for at in range(NOON - DAY, NOON, MINUTE)]
        # A live tape rolls up its hours when they are over.
        rows += [*minutes, *roll_up(minutes, granularity_sec=3_600)]
        rows += [Mid(symbol, at, 6_500_000_000_000) for at in range(NOON - HOUR, NOON, 5_000)]
        rows += [Mid(symbol, at, 6_400_000_000_000) for at in range(NOON - 12 * HOUR - MINUTE, NOON - 12 * HOUR, 5_000)]
        rows += [Liquidity(symbol, at, 10**10, 1.2, 1e6, 4e6, 9e6, 0.1) for at in range(NOON - DAY, NOON, 5 * MINUTE)]
        rows.append(AssetContext(symbol, NOON - MINUTE, 12_500_000, 0, 1e5, 10**10, 10**10))
        metrics = '{"fundingRate8h":"0.0001000000","regime":"high","score":"0.720","realizedVol1h":"0.034000"}'
        rows += [FeatureRow(symbol, NOON - MINUTE, metrics, name) for name in ("pressure", "volatility", "positioning")]
    rooms.tape.commit(rows, assumed=lambda fact: fact.bucket_ts)


def _bar(symbol: str, at: int) -> Candle:
    price = 6_500_000_000_000 + at % 9_973 * 1_000_000
    return Candle(symbol, 60, at, price, price + 10**9, price - 10**9, price + 10**8, 12.5, 812_345.5, 33)


_COUNT = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :trades)"
_PLACE = "'local', 'bench.paper'"
_SYMBOL = "CASE i % 5 WHEN 0 THEN 'BTC' WHEN 1 THEN 'ETH' WHEN 2 THEN 'HYPE' WHEN 3 THEN 'SOL' ELSE 'kPEPE' END"
_AT = ":noon - (:trades - i) * :every"
_TOLD = f'{{"run":{{"inputs_sha256":"{"0" * 64}","votes":[]}}}}'
_FILLS = f"""
INSERT INTO trade_history SELECT 't' || i, {_PLACE}, 'bench', 1, {_SYMBOL}, 'long', 'closed', i, {_AT},
    6500000000000, 2, :words, 'r' || i, NULL, 'chop_lowvol', i, {_AT}, 'target', 'r' || i, 383436, 250000272, 383436,
    252837698, CASE WHEN i % 3 THEN -2840000 ELSE 2840000 END, 100000, 0, 3000000, -3000000, 0, 250000272, NULL, {_AT},
    {_AT}, '' FROM n;
INSERT INTO positions (owner, deployment, symbol, seq, trade_id, size_e8, cost_usd_e6, leverage, entered_e8,
    entered_usd_e6, exited_e8, exited_usd_e6, realised_usd_e6, fees_usd_e6, funding_usd_e6, mfe_usd_e6, mae_usd_e6,
    funded_until) SELECT {_PLACE}, {_SYMBOL}, i, 't' || i, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM n;
INSERT INTO decision_runs (owner, deployment, seq, run_id, agent, agent_version, symbol, scheduled_for, run_trigger,
    branch, as_of, tape_seq, book_seq, docs_seq, renderer, packet_sha256, tokens, engine, status,
    degraded_json) SELECT {_PLACE}, i, 'r' || i, 'bench', 1, {_SYMBOL}, {_AT}, 'schedule', 'main', {_AT}, 1, 1, 0,
    2, '{"0" * 64}', 2500, 'trend', 'rejected', '[]' FROM n;
INSERT INTO log_events SELECT {_PLACE}, i, 'run.decided', 1, {_AT}, {_AT}, '{_TOLD}', '', NULL FROM n;
INSERT INTO decision_actions (owner, deployment, run_id, position, seq, action, symbol, side, notional_usd_e6, leverage,
    order_type, confidence_e4, reason, cites_json, allowed, rule, detail) SELECT {_PLACE}, 'r' || i, 0, i, 'open',
    {_SYMBOL}, 'long', 250000000, 2, 'market', 6400, :words, '[]', 0, 'R3_POSITION_CAP', 'too much' FROM n;
INSERT INTO orders (owner, deployment, client_id, seq, run_id, symbol, side, size_e8, order_type, reduce_only, leverage,
    intended_at, status, detail, placed_seq, ended_seq) SELECT {_PLACE}, 'c' || i, i, 'r' || i, {_SYMBOL}, 'buy',
    383436, 'market', 0, 2, {_AT}, 'filled', '', i, i FROM n;
INSERT INTO fills SELECT {_PLACE}, i, 'f' || i, 'c' || i, {_SYMBOL}, {_AT}, 383436, 6500000000000, 100000, 0, 0,
    NULL, NULL, 0 FROM n;
INSERT INTO wallet_ledger SELECT {_PLACE}, i, 0, 'realised_pnl', {_SYMBOL}, -100000, 10000000000, {_AT}, 0 FROM n;
"""
_OPEN = f"""
INSERT INTO trade_history (id, owner, deployment, agent, agent_version, symbol, side, status, entry_seq, entry_tick_at,
    entry_mark_e8, entry_reason) VALUES (:id, {_PLACE}, 'bench', 1, :symbol, 'long', 'open', :seq, :at, 1, :words);
INSERT INTO positions (owner, deployment, symbol, seq, trade_id, size_e8, cost_usd_e6, leverage, entered_e8,
    entered_usd_e6, exited_e8, exited_usd_e6, realised_usd_e6, fees_usd_e6, funding_usd_e6, mfe_usd_e6, mae_usd_e6,
    funded_until)
    VALUES ({_PLACE}, :symbol, :seq, :id, 383436, 250000272, 2, 383436, 250000272, 0, 0, 0, 0, 0, 0, 0, 0);
"""
_HEAD = f"INSERT INTO log_events VALUES ({_PLACE}, :seq, 'situation.seen', 1, :at, :at, '{{}}', '', NULL)"


def _fill(path: Path, trades: int) -> None:
    """Closed trades and all that belongs to them, and three that are open."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144").fetchall()
    values = {"trades": trades, "noon": NOON, "every": EVERY, "words": _WORDS}
    with connection:
        for statement in filter(str.strip, _FILLS.split(";")):
            head, _, rest = statement.partition("SELECT")
            connection.execute(f"{_COUNT} {head} SELECT {rest}" if "FROM n" in rest else statement, values).fetchall()
        for number, symbol in enumerate(OPEN, start=1):
            place = {"id": f"o{number}", "symbol": symbol, "seq": trades + number, "at": NOON - 2 * HOUR}
            connection.execute(_OPEN, place | {"words": _WORDS}).fetchall()
        connection.execute(_HEAD, {"seq": trades + 100, "at": NOON}).fetchall()
    connection.close()
