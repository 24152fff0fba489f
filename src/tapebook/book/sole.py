"""The book of a sole writer: what a tick asks of the newest state is answered from memory.

Every answer equals that of `Book`; whatever a fold does not know, the tables are asked.
"""

from collections import defaultdict

from tapebook.book.activity import Session
from tapebook.book.events import KINDS, DeskFlattened
from tapebook.book.fold import Fold
from tapebook.book.settle import Account
from tapebook.book.store import EVERY, MOST_UNDER_WAY, Book, Snapshot
from tapebook.db import Database
from tapebook.domain.agent import AgentProfile
from tapebook.domain.order import Order
from tapebook.domain.run import DecisionRun
from tapebook.domain.trade import ClosedTrade
from tapebook.log import Event
from tapebook.log.set_back import StreamSetBack
from tapebook.log.sole import SoleLog


class SoleBook(Book):
    """A book with a fold of every deployment it is asked about; one answers if it is as of its end that is asked."""

    def __init__(self, log: SoleLog, db: Database, *, owner: str) -> None:
        super().__init__(log, db, owner=owner)
        self._run_ids: set[str] = set()
        self._folds: defaultdict[str, Fold] = defaultdict(lambda: Fold(self._run_ids))
        self._agents: dict[str, tuple[int, AgentProfile] | None] = {}
        self._halts: dict[str, str] | None = None
        self._flattened = False
        for stream in log.streams():
            for event in log.events(stream):
                self._see(event)
        log.follow(self._see)

    def head(self, deployment: str = "") -> int:
        """The newest sequence number of a stream."""
        return self._folds[deployment].seq if deployment else super().head()

    def note_set_back(self, deployment: str = "") -> None:
        """Nothing: virtual time never goes back."""

    def set_back(self, deployment: str, *, seq: int, as_of: int) -> StreamSetBack | None:
        """None: virtual time never goes back."""
        return None

    def agent(self, name: str, *, version: int | None = None) -> tuple[int, AgentProfile] | None:
        """One agent's profile: the newest version, or a given one."""
        if version is not None:
            return super().agent(name, version=version)
        if name not in self._agents:
            self._agents[name] = super().agent(name)
        return self._agents[name]

    def halts(self) -> dict[str, str]:
        """What may not trade now, with the reason that was given."""
        if self._halts is None:
            self._halts = super().halts()
        return self._halts

    def flatten_due(self, deployment: str) -> dict[str, int]:
        """Symbols with something left that had begun when somebody wanted it flat, each with when that was last."""
        return super().flatten_due(deployment) if self._flattened else {}

    def account(self, deployment: str, *, seq: int) -> Account:
        """Cash, positions and open trades as of a sequence number."""
        fold = self._folds[deployment]
        if fold.seq != seq:
            return super().account(deployment, seq=seq)
        return Account(seq, fold.portfolio, fold.open_trades)

    def closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first."""
        fold = self._folds[deployment]
        if fold.seq != seq:
            return super().closed_trades(deployment, seq=seq, most=most)
        return fold.closed[: -most - 1 : -1]

    def closed_after(self, deployment: str, *, after: int, seq: int, most: int = EVERY) -> list[ClosedTrade]:
        """The trades that ended after one sequence number and up to another, oldest exit first."""
        fold = self._folds[deployment]
        if fold.seq != seq:
            return super().closed_after(deployment, after=after, seq=seq, most=most)
        return fold.closed_after(after)[:most]

    def closed_since(self, deployment: str, *, after: int, seq: int) -> tuple[int, int | None]:
        """How many trades ended after one sequence number and up to another, and when the first of them did."""
        fold = self._folds[deployment]
        if fold.seq != seq:
            return super().closed_since(deployment, after=after, seq=seq)
        closed = fold.closed_after(after)
        return len(closed), min([each.exit_tick_at for each in closed], default=None)

    def last_run(self, deployment: str, symbol: str, *, seq: int, expired_orders: bool = True) -> DecisionRun | None:
        """The newest decision on a symbol as of a sequence number; also one whose order expired at the gate, or not."""
        fold = self._folds[deployment]
        if fold.seq != seq or not expired_orders:
            return super().last_run(deployment, symbol, seq=seq, expired_orders=expired_orders)
        return fold.runs.get(symbol)

    def has_run(self, run_id: str) -> bool:
        """Whether this decision was made already."""
        return run_id in self._run_ids

    def run(self, run_id: str) -> DecisionRun | None:
        """One decision with its actions and verdicts; those that placed orders are asked for again."""
        found = [fold.placed[run_id] for fold in self._folds.values() if run_id in fold.placed]
        return found[0] if found else super().run(run_id)

    def order_reason(self, client_id: str) -> tuple[str, str, int] | None:
        """The run that placed an order, the reason it gave, and how far it had read the book."""
        found = [reason for fold in self._folds.values() if (reason := fold.reason(client_id))]
        return found[0] if found else super().order_reason(client_id)

    def working_orders(self, deployment: str) -> list[tuple[Order, bool]]:
        """Orders that have not ended, oldest first, each with whether the broker has it."""
        return self._folds[deployment].working

    def orders_under_way(self, deployment: str, *, seq: int, as_of: int) -> tuple[Order, ...]:
        """Orders that had not ended as of a sequence number, oldest first."""
        fold = self._folds[deployment]
        known = fold.under_way(MOST_UNDER_WAY) if fold.seq == seq else None
        return super().orders_under_way(deployment, seq=seq, as_of=as_of) if known is None else known

    def stirs(self, deployment: str) -> bool:
        """Whether a deployment has an order that has not ended, or holds something."""
        fold = self._folds[deployment]
        return bool(fold.open_trades or fold.working)

    def newest_snapshot(self, deployment: str, *, seq: int) -> Snapshot | None:
        """What the account was worth when it was last valued."""
        fold = self._folds[deployment]
        return fold.snapshot if fold.seq == seq else super().newest_snapshot(deployment, seq=seq)

    def session(self, deployment: str, account: Account, *, as_of: int) -> Session:
        """What a deployment did in the hour and the day before a moment, as of its account's sequence number."""
        fold = self._folds[deployment]
        known = fold.session(as_of) if fold.seq == account.seq else None
        return super().session(deployment, account, as_of=as_of) if known is None else known

    def _see(self, event: Event) -> None:
        stream = event.stream
        if stream.owner != self.owner:
            return
        if stream.deployment:
            self._folds[stream.deployment].see(event)
        else:
            self._agents, self._halts = {}, None
            self._flattened |= event.kind == KINDS[DeskFlattened]
