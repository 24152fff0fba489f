"""What models cost the backtests of a home: the stored answers, the limit, and the estimate before a start.

    backtests/answers.db   every question that a backtest asked, by the hash of its prompt and model

1. A question that any backtest of the home asked before gets the same answer and costs nothing (`find_response`).
   One that this backtest paid for itself keeps its cost, so a rerun has the same bytes.
2. Before a question is asked, its highest possible cost must fit what is left of the backtest's limit and of what the
   profile allows for a day (`reserve_usd`). Days are the machine's: a year of the market may pass in an hour. A
   backtest stops rather than deciding without a model, for that would be another backtest.
3. The answer is on the disk before a decision is made of it (`record_response`): a killed process loses no answer.

`estimate_cost` counts the questions that are left (one of each model for every decision, and one for every note),
measures a prompt at the plan's end with room for what the memory may add, and takes the longest answers for the most
and the answers so far for the usual cost.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tapebook.backtest.formats import usd_text
from tapebook.backtest.home import BACKTESTS_FOLDER, BacktestHome
from tapebook.backtest.plan import BacktestPlan
from tapebook.book.decision_queue import StoredReplies
from tapebook.clock import Clock, SystemClock, VirtualClock
from tapebook.context import MEMORY_CAP, SECTION_CAPS, assemble_packet
from tapebook.db import Database, Queries, connect, migrate
from tapebook.decision.reply import REPLY_SCHEMA
from tapebook.domain.agent import Deployment, deployment_id
from tapebook.domain.run import Usage, Watermarks
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, E6, decimal_text, floor_to_step
from tapebook.errors import BadInput, SpendLimit
from tapebook.llm import Asker, ModelResponse
from tapebook.llm.port import estimate_tokens
from tapebook.tick.prepare import gather_situation
from tapebook.wiring import Rooms

ANSWERS_FILE = "answers.db"

_QUERIES = Queries.load("tapebook.backtest", "spending.sql")


class SpendingTotals(msgspec.Struct, frozen=True):
    """What the models of a backtest were called for and cost; `reused` answers had been paid for by other backtests."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd_e6: int = 0
    reused: int = 0
    saved_usd_e6: int = 0

    def __bool__(self) -> bool:
        return bool(self.calls or self.reused)


class BacktestLedger:
    """The ledger of one backtest; its file is opened at the first question, so rules never have one.

    `failures` gives answers that failed too: made again, a backtest fails where it failed.
    """

    def __init__(
        self, parent: Path, plan: BacktestPlan, *, run_usd_e6: int, failures: bool = False, clock: Clock | None = None
    ) -> None:
        self._parent, self._backtest, self._agent = parent, plan.id, plan.agent.name
        self._run_usd_e6, self._day_usd_e6 = run_usd_e6, plan.agent.caps.max_model_usd_e6_per_day
        self._failures, self._clock = failures, clock or SystemClock()
        self._opened: Database | None = None
        self._spent = SpendingTotals()

    @property
    def totals(self) -> SpendingTotals:
        """What the backtest cost by now, over all attempts at it."""
        return self._spent

    def find_response(self, question: str) -> ModelResponse | None:
        """The answer that was paid for; of another backtest it costs nothing any more."""
        row = self._db().one(
            _QUERIES.find, question_sha256=question, backtest=self._backtest, failures=int(self._failures)
        )
        if row is None:
            return None
        backtest, text, reasoning, problem, *used = row
        usage = Usage(*used)
        if backtest != self._backtest:
            self._note_reuse(question, usage.cost_usd_e6)
            usage = Usage(usage.model, 0, 0, 0, 0)
        return ModelResponse(text, usage, problem, reasoning)

    def reserve_usd(self, usd_e6: int) -> None:
        """Makes sure that a question may cost so much; SpendLimit when it may not."""
        if not usd_e6:
            return
        today, allowed = self._spent_today(), self._day_usd_e6
        spent, most = self._spent.cost_usd_e6, self._run_usd_e6
        next_one = f"its next question may cost {_limit_text(usd_e6)}"
        if self._failures:
            raise SpendLimit(
                f"an answer that backtest {self._backtest} got is not in "
                f"{BACKTESTS_FOLDER}/{ANSWERS_FILE} any more: it cannot be made "
                "again without paying for it; `tapebook backtests remove` it to begin anew"
            )
        if spent + usd_e6 > most:
            raise SpendLimit(
                f"backtest {self._backtest} has spent {_limit_text(spent)} of {_limit_text(most)} USD "
                f"and {next_one}: what was paid "
                "for is kept; run the same with a higher `max_usd=` to go on"
            )
        if usd_e6 > allowed:
            raise SpendLimit(
                f"the next question of backtest {self._backtest} may cost {_limit_text(usd_e6)}, "
                f"and its profile allows "
                f"{_limit_text(allowed)} a day: raise max_model_usd_per_day with `tapebook agents edit`"
            )
        if today + usd_e6 > allowed:
            raise SpendLimit(
                f"the backtests of {self._agent} have spent {_limit_text(today)} USD today, its profile allows "
                f"{_limit_text(allowed)} a day and {next_one}: what was paid for is kept; "
                f"run the same command tomorrow "
                "(UTC), or raise max_model_usd_per_day with `tapebook agents edit`"
            )

    def record_response(self, question: str, asked: ModelResponse) -> None:
        """Writes down a question that was asked, what it cost, and the answer."""
        # Half of a surrogate pair has no bytes; written out it is as wrong an answer as before.
        text, reasoning = (each.encode(errors="backslashreplace").decode() for each in (asked.text, asked.reasoning))
        self._db().execute(
            _QUERIES.add,
            asked_at=self._clock.now(),
            backtest=self._backtest,
            agent=self._agent,
            question_sha256=question,
            text=text,
            reasoning=reasoning,
            problem=asked.problem,
            **msgspec.structs.asdict(asked.usage),
        )
        used = asked.usage
        self._spent = msgspec.structs.replace(
            self._spent,
            calls=self._spent.calls + used.attempts,
            input_tokens=self._spent.input_tokens + used.input_tokens,
            output_tokens=self._spent.output_tokens + used.output_tokens,
            cost_usd_e6=self._spent.cost_usd_e6 + used.cost_usd_e6,
        )

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _note_reuse(self, question: str, saved_usd_e6: int) -> None:
        named = {"backtest": self._backtest, "question_sha256": question}
        if self._db().one(_QUERIES.reuse, saved_usd_e6=saved_usd_e6, **named) is not None:
            reused, saved = self._spent.reused + 1, self._spent.saved_usd_e6 + saved_usd_e6
            self._spent = msgspec.structs.replace(self._spent, reused=reused, saved_usd_e6=saved)

    def _spent_today(self) -> int:
        row = self._db().one(_QUERIES.spent_since, agent=self._agent, since=floor_to_step(self._clock.now(), DAY))
        return row[0] if row else 0

    def _db(self) -> Database:
        if self._opened is None:
            self._opened = _open_answers(self._parent)
            self._spent = _totals_of(self._opened, self._backtest)
        return self._opened


class BacktestReplies(StoredReplies):
    """Kept answers of a backtest's own book, in which a day of the market is no day of anybody's money."""

    def __init__(self, db: Database, *, owner: str, has_ledger: Callable[[], bool]) -> None:
        super().__init__(db, owner=owner)
        self._has_ledger = has_ledger

    def spent_usd_e6(self, deployment: str, *, since: int) -> int:
        """Nothing where `BacktestLedger` counts; what an engine spends by itself counts over the whole backtest."""
        return 0 if self._has_ledger() else super().spent_usd_e6(deployment, since=0)


def spending_of(parent: Path, backtest: str) -> SpendingTotals:
    """What the models of a backtest cost so far; nothing where none was asked."""
    with _open_to_read(parent) as db:
        return SpendingTotals() if db is None else _totals_of(db, backtest)


def usual_tokens(parent: Path, model: str) -> tuple[int, int, int]:
    """How many answers of a model are known, and the tokens of their prompts and of what it wrote, in all."""
    with _open_to_read(parent) as db:
        row = None if db is None else db.one(_QUERIES.usual, model=model)
        return (0, 0, 0) if row is None else (row[0], row[1], row[2])


def _totals_of(db: Database, backtest: str) -> SpendingTotals:
    asked, reused = db.one(_QUERIES.spent, backtest=backtest), db.one(_QUERIES.reused, backtest=backtest)
    return SpendingTotals(*(asked or ()), *(reused or ()))


@contextmanager
def _open_to_read(parent: Path) -> Iterator[Database | None]:
    if not (parent / BACKTESTS_FOLDER / ANSWERS_FILE).exists():
        yield None
        return
    db = _open_answers(parent)
    try:
        yield db
    finally:
        db.close()


def _open_answers(parent: Path) -> Database:
    db = connect(str(parent / BACKTESTS_FOLDER / ANSWERS_FILE), durable=True)
    try:
        migrate(db, ("tapebook.lab",))
    except BaseException:
        db.close()
        raise
    return db


def _limit_text(amount_e6: int) -> str:
    return decimal_text(amount_e6, E6, 4 if amount_e6 < E6 else 2)


NOTE_TOKENS = 20_000
"""The prompt of a reflection: sixty trades with their reasons and the table of facts are seldom half as much."""

MOST_USD = 1e9
"""More than any backtest costs, and no more than fits its integers."""

# Sections that grow with what an agent did; recent activity, trades, positions and lessons share one budget.
_ACCOUNT_SECTIONS = ("portfolio", "last_decision")
_MEMORY_SECTIONS = ("experience", "horizons", "citations")


class CostEstimate(msgspec.Struct, frozen=True):
    """What a backtest, or the rest of one, asks models for, and what that costs at most.

    `usual_usd_e6` is what it costs if answers use what those of the same models used so far; None when none is known.
    `spent_usd_e6` was paid for it before.
    """

    models: tuple[str, ...] = ()
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    most_usd_e6: int = 0
    usual_usd_e6: int | None = None
    spent_usd_e6: int = 0


class _QuestionCount(msgspec.Struct, frozen=True):
    """So many questions to one model, each with a prompt of so many tokens."""

    asker: Asker
    count: int
    prompt_tokens: int


def estimate_cost(rooms: Rooms, plan: BacktestPlan) -> CostEstimate:
    """What is left to pay for a plan; nothing where no model is asked, or where it is done."""
    deciding, writing = rooms.askers(plan.agent)
    if not deciding and not writing:
        return CostEstimate()
    asked = [each for each in _question_counts(rooms, plan, deciding=deciding, writing=writing) if each.count]
    cap = plan.agent.caps.max_model_usd_e6_per_run
    usual = [_usual_usd_e6(rooms.home, each) for each in asked]
    return CostEstimate(
        models=tuple(dict.fromkeys(each.asker.name for each in asked)),
        calls=sum(each.count for each in asked),
        input_tokens=sum(each.count * each.prompt_tokens for each in asked),
        output_tokens=sum(each.count * each.asker.budget.max_tokens for each in asked),
        # An attempt that is dearer than a run may cost is not made; a shorter prompt than the longest may be sent.
        most_usd_e6=sum(each.count * min(cap, each.asker.attempt_usd_e6(each.prompt_tokens)) for each in asked),
        usual_usd_e6=None if None in usual else sum(filter(None, usual)),
        spent_usd_e6=spending_of(rooms.home, plan.id).cost_usd_e6,
    )


def max_spending(estimate: CostEstimate, *, max_usd: float | None, agree: Callable[[CostEstimate], bool]) -> int:
    """What models may cost in all, in usd_e6: what is given, else the estimate if somebody agrees; else BadInput."""
    if max_usd is not None and not 0 <= max_usd < MOST_USD:
        raise BadInput(f"`max_usd=` is {max_usd:g}: give the dollars that models may cost, 0 or more")
    agreed = bool(estimate.calls) and agree(estimate)
    if max_usd is not None:
        return round(max_usd * E6)
    if estimate.most_usd_e6 and not agreed:
        raise BadInput(f"{cost_sentence(estimate)}: say with `max_usd=` what it may cost")
    return estimate.spent_usd_e6 + estimate.most_usd_e6


def _question_counts(
    rooms: Rooms, plan: BacktestPlan, *, deciding: Sequence[Asker], writing: Sequence[Asker]
) -> Iterator[_QuestionCount]:
    slots = _slots_left(rooms.home, plan)
    decisions = slots * len(plan.symbols)
    if deciding and decisions:
        prompt = _prompt_tokens(rooms, plan)
        yield from (_QuestionCount(each, decisions, prompt) for each in deciding)
    reflection = plan.agent.reflection
    # A decision ends one trade at most.
    days = -(-slots * plan.agent.cadence_ms // DAY)
    notes = days if reflection.cadence == "daily" else decisions // max(1, reflection.every_n_trades)
    yield from (_QuestionCount(each, notes, NOTE_TOKENS) for each in writing)


def _slots_left(home: Path, plan: BacktestPlan) -> int:
    """How many slots have no decision yet."""
    backtest, cadence, first = BacktestHome(home / BACKTESTS_FOLDER / plan.id), plan.agent.cadence_ms, plan.start
    if (backtest.folder / "plan.json").exists():
        if backtest.result() is not None:
            return 0
        with closing(Rooms(backtest.folder, clock=VirtualClock(plan.start))) as own:
            name = deployment_id(plan.agent)
            newest = own.book.last_run(name, plan.symbols[-1], seq=own.book.head(name))
            first = plan.start if newest is None else newest.scheduled_for + cadence
    return len(range(-(-first // cadence) * cadence, plan.end, cadence))


def _prompt_tokens(rooms: Rooms, plan: BacktestPlan) -> int:
    """What a prompt of the plan has at most: a packet without memory, measured, and the caps of what may join it."""
    context = msgspec.structs.replace(plan.agent.context, memory=False)
    agent = msgspec.structs.replace(plan.agent, context=context)
    deployment = Deployment(rooms.book.owner, deployment_id(agent), agent, plan.agent_version)
    known = Watermarks(plan.tape_seq, 0)
    packet = assemble_packet(gather_situation(rooms, deployment, plan.symbols[0], as_of=plan.end, watermarks=known))
    grows = sum(max(0, SECTION_CAPS[name] - packet.section_tokens.get(name, 0)) for name in _ACCOUNT_SECTIONS)
    if plan.agent.context.memory:
        grows += MEMORY_CAP + sum(SECTION_CAPS[name] for name in _MEMORY_SECTIONS)
    measured = estimate_tokens(packet.system, packet.text, msgspec.json.encode(REPLY_SCHEMA).decode())
    return measured + -(-measured * grows // max(1, packet.tokens))


def cost_sentence(estimate: CostEstimate) -> str:
    """What it may cost, in one line."""
    times, read = plural(estimate.calls, "time"), plural(estimate.input_tokens, "token")
    usual = estimate.usual_usd_e6
    so_far = f"; about {usd_text(usual)} USD if its answers are as long as those so far" if usual is not None else ""
    before = f", beside {usd_text(estimate.spent_usd_e6)} USD spent on it before" if estimate.spent_usd_e6 else ""
    return (
        f"{' and '.join(estimate.models)} may be asked {times}: at most {read} in and "
        f"{estimate.output_tokens:,} out, {usd_text(estimate.most_usd_e6)} USD{before}{so_far}"
    )


def _usual_usd_e6(home: Path, each: _QuestionCount) -> int | None:
    known, read, written = usual_tokens(home, each.asker.name)
    if not known:
        return None
    return each.count * each.asker.price.cost_usd_e6(input_tokens=read // known, output_tokens=written // known)
