"""A small backtest, written into its book event by event: four weeks, two symbols, a trade a day or two of each.

Prices are a seeded walk, told once an hour as a midpoint and as a bar. The agent votes as an ensemble of three, of
which `good` knows where the price will go, `bad` says the contrary, and `idle` holds. So providers differ, and every
figure can be counted again from the trades.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from tapebook.backtest.home import BacktestHome, Checkpoint
from tapebook.backtest.measure import measure_all, measure_chunk
from tapebook.backtest.plan import BacktestChunk, BacktestPlan
from tapebook.backtest.result import BacktestResult
from tapebook.backtest.summary import summary_text
from tapebook.book import events as ev
from tapebook.book.materializer import TradeCause, settle_fill, settle_funding, settle_marks
from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile, Deployment, Note
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.order import Fill, FundingPayment
from tapebook.domain.position import PriceRange
from tapebook.domain.run import Action, DecisionRun, Verdict, Vote, Watermarks
from tapebook.domain.units import DAY, E6, E8, E12, HOUR, divide_half_even, notional_usd_e6, parse_instant
from tapebook.home import is_home, make_home
from tapebook.lessons import hash_lessons_text, note_text
from tapebook.lessons.notes import draft_note_written
from tapebook.log import Draft
from tapebook.settings.config import load_config
from tapebook.tape.store import Tape
from tapebook.tape.view import GRACE_MS
from tapebook.tick.memory import outcomes_due
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms

START = parse_instant("2026-01-05T00:00:00Z")
WEEKS = 4
END = START + WEEKS * 7 * DAY
SYMBOLS = ("BTC", "ETH")
FEE_PPM = 450
RATE_E12 = 12_500_000
AGENT = AgentProfile(
    "voter-1h", SYMBOLS, engine="ensemble", members=("good", "bad", "idle"), cadence_ms=HOUR, strategy="Ask three."
)
_WEEK = 7 * DAY
CHUNKS = tuple(
    BacktestChunk(f"2026-W{2 + week:02}", START + week * _WEEK, START + (week + 1) * _WEEK) for week in range(WEEKS)
)


def prices(symbol: str) -> dict[int, int]:
    """Where a symbol stood at every hour."""
    rng, price = random.Random(f"walk {symbol}"), {"BTC": 60_000.0, "ETH": 3_000.0}[symbol]
    walk = {}
    for hour in range(START - DAY, END + 2 * HOUR, HOUR):
        price *= 1 + rng.gauss(0.0001, 0.006)
        walk[hour] = round(price * E8)
    return walk


PRICES = {symbol: prices(symbol) for symbol in SYMBOLS}


def fill_tape(tape: Tape) -> None:
    """The market of all weeks, as if it had been imported."""
    rows: list[Mid | Candle | FundingRate] = []
    for symbol, walk in PRICES.items():
        for hour in sorted(walk)[:-1]:
            now, then = walk[hour], walk[hour + HOUR]
            rows.append(Mid(symbol, hour, now))
            rows.append(Candle(symbol, 3_600, hour, now, max(now, then), min(now, then), then, 1.0, 1.0, 1))
            if symbol == "BTC" and hour % (8 * HOUR) == 0:
                rows.append(FundingRate(symbol, hour, RATE_E12, 0))
    tape.commit(rows, assumed=lambda row: row.end + GRACE_MS if isinstance(row, Candle) else row.bucket_ts)


def plan_of(tape_seq: int, *, memory: str = "on") -> BacktestPlan:
    """Four weeks of the voter."""
    return BacktestPlan(
        agent=AGENT,
        agent_version=1,
        symbols=SYMBOLS,
        start=START,
        end=END,
        chunk_kind="week",
        chunks=CHUNKS,
        memory="on" if memory == "on" else "off",
        freeze_at=None,
        tape_seq=tape_seq,
        settings_sha256="0" * 64,
        notes=("ETH: no funding in the tape, so none was paid or received",),
    )


class Stage:
    """A deployment whose story is told here instead of by a loop."""

    def __init__(self, rooms: Rooms, clock: VirtualClock, plan: BacktestPlan, *, seed: str) -> None:
        self.rooms, self.clock, self.plan = rooms, clock, plan
        self.rng = random.Random(seed)
        rooms.book.save_agent(plan.agent, at=plan.start)
        self.deployment: Deployment = deploy_agent(rooms.book, rooms.clock, plan.agent.name)
        self.leaves: dict[str, int] = {}

    def play(self, chunk: BacktestChunk) -> None:
        """Every hour of a chunk; it ends with a note and a snapshot."""
        since = self.seq
        with self.rooms.log.one_transaction():
            for slot in range(chunk.start, chunk.end, HOUR):
                self.clock.advance(slot + GRACE_MS)
                for symbol in SYMBOLS:
                    self.hour(slot, symbol)
                self.mark()
        if self.plan.memory == "on":
            self.append(outcomes_due(self.rooms.book, self.rooms.experience, self.deployment.id, seq=self.seq))
            self.append([self.note(chunk)])
            span, name = (chunk.start, chunk.end), self.deployment.id
            take = self.rooms.experience.draft_chunk_snapshot
            self.append([take(name, chunk.name, since_seq=since, seq=self.seq, span=span)])

    def hour(self, slot: int, symbol: str) -> None:
        """One decision, and what comes of it."""
        side = 0
        due = self.leaves.get(symbol)
        if due is None and self.rng.random() < 0.04:
            hold = self.rng.choice((2, 5, 9, 30))
            self.leaves[symbol] = slot + hold * HOUR
            side = self.rng.choice((1, -1))
        run = self.decide(slot, symbol, side)
        if side:
            usd = self.rng.choice((500, 1_000, 2_500))
            self.fill(slot, symbol, side * divide_half_even(usd * E8 * E8, PRICES[symbol][slot]), run)
        elif due is not None and slot >= due:
            held = self.rooms.book.account(self.deployment.id, seq=self.seq).portfolio.positions[symbol]
            self.fill(slot, symbol, -held.size_e8, run)
            del self.leaves[symbol]
        self.fund(slot, symbol)

    def decide(self, slot: int, symbol: str, side: int) -> str:
        """A run that opens on a side, or holds."""
        run_id = hashlib.sha256(f"{symbol} {slot} {side}".encode()).hexdigest()[:20]
        action = Action("hold", symbol, None, 0, 1, "market", None, 5_000, "wait")
        votes: tuple[Vote, ...] = ()
        if side:
            ahead = PRICES[symbol][self.leaves[symbol]] > PRICES[symbol][slot] if self.leaves[symbol] < END else True
            word = "long" if side > 0 else "short"
            action = Action("open", symbol, "long" if side > 0 else "short", E6, 2, "market", None, 6_000, f"go {word}")
            votes = (
                Vote("good", "open", "long" if ahead else "short", 7_000, 10_000, "knows"),
                Vote("bad", "open", "short" if ahead else "long", 7_000, 10_000, "does not"),
                Vote("idle", "hold", None, 5_000, 10_000, "waits"),
            )
        run = DecisionRun(
            run_id=run_id,
            owner=self.rooms.book.owner,
            deployment=self.deployment.id,
            agent=AGENT.name,
            agent_version=self.deployment.version,
            symbol=symbol,
            scheduled_for=slot,
            trigger="backtest",
            branch="main",
            as_of=self.clock.now(),
            watermarks=Watermarks(self.plan.tape_seq, self.seq),
            renderer=1,
            inputs_sha256="",
            packet_sha256=hashlib.sha256(run_id.encode()).hexdigest(),
            tokens=100,
            engine="ensemble",
            packet_key=None,
            reply_key=None,
            status="done" if side else "held",
            actions=(action,),
            verdicts=(Verdict(True),),
            votes=votes,
        )
        self.append([ev.draft_event(run.as_of, ev.RunDecided(run))])
        return run_id

    def fill(self, slot: int, symbol: str, size_e8: int, run: str) -> None:
        """A fill at the price of the hour."""
        price = PRICES[symbol][slot]
        fee = divide_half_even(abs(notional_usd_e6(size_e8, price)) * FEE_PPM, 1_000_000)
        fill = Fill(f"f {symbol} {slot}", symbol, self.clock.now(), size_e8, price, fee, False, f"o {symbol} {slot}")
        regime = ("trend_up", "chop_lowvol", "trend_down")[slot // DAY % 3]
        account = self.rooms.book.account(self.deployment.id, seq=self.seq)
        cause = TradeCause(AGENT.name, self.deployment.version, run, f"because of {symbol}", 2, regime)
        self.settle(settle_fill(account, fill, cause, mark_e8=price)[1])

    def fund(self, slot: int, symbol: str) -> None:
        """Funding every eight hours on BTC."""
        if symbol != "BTC" or slot % (8 * HOUR):
            return
        account = self.rooms.book.account(self.deployment.id, seq=self.seq)
        held = account.portfolio.positions.get(symbol)
        if held and held.moved_at < slot:
            amount = -divide_half_even(notional_usd_e6(held.size_e8, PRICES[symbol][slot]) * RATE_E12, E12)
            cause = TradeCause(AGENT.name, self.deployment.version)
            self.settle(settle_funding(account, FundingPayment(symbol, slot, amount, RATE_E12), cause)[1])

    def mark(self) -> None:
        """What is held is valued."""
        account, now = self.rooms.book.account(self.deployment.id, seq=self.seq), self.clock.now()
        if held := account.portfolio.positions:
            marks = {symbol: PRICES[symbol][now - GRACE_MS] for symbol in held}
            seen = {symbol: PriceRange(price, price) for symbol, price in marks.items()}
            cause = TradeCause(AGENT.name, self.deployment.version)
            self.settle(settle_marks(account, marks, cause, path=seen, at=now)[1])

    def note(self, chunk: BacktestChunk) -> Draft:
        """The lesson of a chunk."""
        text = note_text({"Symbol selection": [f"ETH does worse in {chunk.name}: <b>-3.0</b> bps a trade (n=7)"]})
        note = Note(
            note_id=f"n {chunk.name}",
            agent=AGENT.name,
            agent_version=1,
            generated_at=chunk.end,
            window_start=chunk.start,
            window_end=chunk.end,
            trades_considered=7,
            lessons_text=text,
            content_hash=hash_lessons_text(text),
            written_by="statistics",
        )
        return draft_note_written(note)

    def settle(self, bodies: list[msgspec.Struct]) -> None:
        """Writes what a word of the broker came to."""
        self.append([ev.draft_event(self.clock.now(), body) for body in bodies])

    def append(self, drafts: list[Draft]) -> None:
        """Writes events."""
        if drafts:
            self.rooms.book.append(self.deployment.id, drafts, expected_seq=self.seq)

    @property
    def seq(self) -> int:
        """Where the deployment's log ends."""
        return self.rooms.book.head(self.deployment.id)


def prepare(parent: Path, *, memory: str = "on") -> tuple[BacktestHome, BacktestPlan]:
    """The parent's tape, and the folder of a backtest on it."""
    if not is_home(parent):
        make_home(parent)
        rooms = Rooms(parent, clock=VirtualClock(END + DAY))
        fill_tape(rooms.tape)
        rooms.close()
    rooms = Rooms(parent, clock=VirtualClock(END + DAY))
    plan = plan_of(rooms.tape.head()[0], memory=memory)
    rooms.close()
    return BacktestHome.prepare(parent, load_config(parent, {}), plan), plan


@contextmanager
def stage(home: BacktestHome, plan: BacktestPlan, *, seed: str = "play") -> Iterator[Stage]:
    """The rooms of a backtest, and its story's teller."""
    clock = VirtualClock(plan.start)
    rooms = Rooms(home.folder, clock=clock)
    try:
        yield Stage(rooms, clock, plan, seed=seed)
    finally:
        rooms.close()


class Played(NamedTuple):
    """The parent home and what the backtest below it came to."""

    parent: Path
    result: BacktestResult


@cache
def played(folder: Path) -> Played:
    """The backtest for tests that only read it, played once in a process."""
    result = play(folder / "played" / "home")
    assert result is not None
    return Played(folder / "played" / "home", result)


def play(parent: Path, *, memory: str = "on", seed: str = "play", chunks: int = WEEKS) -> BacktestResult | None:
    """Plays and measures a backtest; with fewer than all chunks there is no result yet."""
    home, plan = prepare(parent, memory=memory)
    with stage(home, plan, seed=seed) as told:
        results = []
        for chunk in plan.chunks[:chunks]:
            since = told.seq
            told.play(chunk)
            results.append(measure_chunk(told.rooms, told.deployment, plan, chunk, since_seq=since, seq=told.seq))
            home.save_checkpoint(Checkpoint(chunk, told.seq, results[-1].head_hash, results[-1]))
        home.add_speed(sum(result.ticks for result in results), 2.0)
        if chunks < WEEKS:
            return None
        result = measure_all(told.rooms, told.deployment, plan, results)
        home.save_result(result, summary=summary_text(result))
        return result
