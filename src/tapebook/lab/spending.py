"""What models cost the backtests of a home, what they answered, and where a backtest stops.

    backtests/answers.db   every question that a backtest asked, by the hash of its prompt and model

1. A question that any backtest of the home asked before gets the same answer and costs nothing (`find`). One that this
   backtest paid for itself keeps its cost, so made again it has the same bytes.
2. Before a question is asked, its dearest outcome must fit what is left of the backtest's limit and of what the
   profile allows for a day (`reserve`). Days are the machine's: a year of the market may pass in an hour. A backtest
   stops rather than deciding without a model, for that would be another backtest.
3. What came of it is on the disk before a decision is made of it (`add`): a killed process loses no answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tapebook.book.replies import Replies
from tapebook.clock import Clock, SystemClock
from tapebook.db import Database, Queries, connect, migrate
from tapebook.domain.instants import DAY, floor
from tapebook.domain.money import E6, decimal_text
from tapebook.domain.run import Usage
from tapebook.errors import SpendLimit
from tapebook.lab.backtest_home import FOLDER
from tapebook.lab.plan import Plan
from tapebook.llm import Asked

FILE = "answers.db"

_QUERIES = Queries.load("tapebook.lab", "spending.sql")


class Spent(msgspec.Struct, frozen=True):
    """What the models of a backtest were called for and cost; `reused` answers had been paid for by other backtests."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd_e6: int = 0
    reused: int = 0
    saved_usd_e6: int = 0

    def __bool__(self) -> bool:
        return bool(self.calls or self.reused)


class Spending:
    """The ledger of one backtest; its file is opened at the first question, so rules never have one.

    `failures` gives answers that failed too: made again, a backtest fails where it failed.
    """

    def __init__(
        self, parent: Path, plan: Plan, *, run_usd_e6: int, failures: bool = False, clock: Clock | None = None
    ) -> None:
        self._parent, self._backtest, self._agent = parent, plan.id, plan.agent.name
        self._run_usd_e6, self._day_usd_e6 = run_usd_e6, plan.agent.caps.max_model_usd_e6_per_day
        self._failures, self._clock = failures, clock or SystemClock()
        self._opened: Database | None = None
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        """What the backtest cost by now, over all attempts at it."""
        return self._spent

    def find(self, question: str) -> Asked | None:
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
        return Asked(text, usage, problem, reasoning)

    def reserve(self, usd_e6: int) -> None:
        """Makes sure that a question may cost so much; SpendLimit when it may not."""
        if not usd_e6:
            return
        today, allowed = self._spent_today(), self._day_usd_e6
        spent, most = self._spent.cost_usd_e6, self._run_usd_e6
        next_one = f"its next question may cost {_usd(usd_e6)}"
        if self._failures:
            raise SpendLimit(
                f"an answer that backtest {self._backtest} got is not in {FOLDER}/{FILE} any more: it cannot be made "
                "again without paying for it; `tapebook backtests remove` it to begin anew"
            )
        if spent + usd_e6 > most:
            raise SpendLimit(
                f"backtest {self._backtest} has spent {_usd(spent)} of {_usd(most)} USD and {next_one}: what was paid "
                "for is kept; run the same command with a higher --max-usd to go on"
            )
        if usd_e6 > allowed:
            raise SpendLimit(
                f"the next question of backtest {self._backtest} may cost {_usd(usd_e6)}, and its profile allows "
                f"{_usd(allowed)} a day: raise max_model_usd_per_day with `tapebook agents edit`"
            )
        if today + usd_e6 > allowed:
            raise SpendLimit(
                f"the backtests of {self._agent} have spent {_usd(today)} USD today, its profile allows "
                f"{_usd(allowed)} a day and {next_one}: what was paid for is kept; run the same command tomorrow "
                "(UTC), or raise max_model_usd_per_day with `tapebook agents edit`"
            )

    def add(self, question: str, asked: Asked) -> None:
        """Writes down a question that was asked, what it cost, and the answer."""
        # Half of a surrogate pair has no bytes; written out it is as wrong an answer as before.
        text, reasoning = (each.encode(errors="backslashreplace").decode() for each in (asked.text, asked.reasoning))
        self._db().run(
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
        row = self._db().one(_QUERIES.spent_since, agent=self._agent, since=floor(self._clock.now(), DAY))
        return row[0] if row else 0

    def _db(self) -> Database:
        if self._opened is None:
            self._opened = _open(self._parent)
            self._spent = _spent(self._opened, self._backtest)
        return self._opened


class BacktestReplies(Replies):
    """Kept answers of a backtest's own book, in which a day of the market is no day of anybody's money."""

    def __init__(self, db: Database, *, owner: str, has_ledger: bool) -> None:
        super().__init__(db, owner=owner)
        self._has_ledger = has_ledger

    def spent_usd_e6(self, deployment: str, *, since: int) -> int:
        """Nothing where `Spending` counts; what an engine spends by itself counts over the whole backtest."""
        return 0 if self._has_ledger else super().spent_usd_e6(deployment, since=0)


def spent_by(parent: Path, backtest: str) -> Spent:
    """What the models of a backtest cost so far; nothing where none was asked."""
    with _reading(parent) as db:
        return Spent() if db is None else _spent(db, backtest)


def usual_tokens(parent: Path, model: str) -> tuple[int, int, int]:
    """How many answers of a model are known, and the tokens of their prompts and of what it wrote, in all."""
    with _reading(parent) as db:
        row = None if db is None else db.one(_QUERIES.usual, model=model)
        return (0, 0, 0) if row is None else (row[0], row[1], row[2])


def _spent(db: Database, backtest: str) -> Spent:
    asked, reused = db.one(_QUERIES.spent, backtest=backtest), db.one(_QUERIES.reused, backtest=backtest)
    return Spent(*(asked or ()), *(reused or ()))


@contextmanager
def _reading(parent: Path) -> Iterator[Database | None]:
    if not (parent / FOLDER / FILE).exists():
        yield None
        return
    db = _open(parent)
    try:
        yield db
    finally:
        db.close()


def _open(parent: Path) -> Database:
    db = connect(str(parent / FOLDER / FILE), durable=True)
    try:
        migrate(db, ("tapebook.lab",))
    except BaseException:
        db.close()
        raise
    return db


def _usd(amount_e6: int) -> str:
    return decimal_text(amount_e6, E6, 4 if amount_e6 < E6 else 2)
