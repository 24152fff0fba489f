"""Makes decisions: many engines are asked at once, one thread reads and writes.

One turn (`Worker.turn`):

1. `_expire` records what waited for too long, and `_take` takes the leases of deployments that have something to
   decide, a batch at a time: whose last decision is the oldest come first, so that too much work is shed fairly;
2. `_begin` makes packets as far as there is room in flight, keeps what each decision may know (an earlier attempt's
   words count), and asks the engines in a pool of threads;
3. `_conclude` records the answers that have come, and places their orders;
4. leases of deployments that have nothing left are released, the others get a sign of life.

A decision whose lease was lost is somebody else's: its answer is dropped, and nothing is written.
While the database is away the answers that come are kept in memory; whatever else was begun is begun again.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

import msgspec

from tapebook.book.work import Item
from tapebook.context import MarketShelf
from tapebook.decision import Answer, Engine
from tapebook.domain.agent import Deployment, deployment_id
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import plural
from tapebook.errors import DatabaseAway, Retry, Stop, UnknownName
from tapebook.log import Lease
from tapebook.loop.abandon import abandon
from tapebook.loop.deploy import deploy
from tapebook.loop.execute import execute
from tapebook.loop.reconcile import reconcile
from tapebook.loop.record import texts_of
from tapebook.loop.replies import keep_answer, kept_answer
from tapebook.loop.slot import Look, Opened
from tapebook.loop.tasks import Flight, Task, agent_of, begun, concluded, is_over, known, slot_of
from tapebook.wiring import Rooms

T = TypeVar("T")

# How many decisions are recorded with one wait for the disk, at most.
_TOGETHER = 32
# How long a worker that stops waits for the next answer.
_GRACE_SECONDS = 3.0
_TOO_LATE = "no desk ran or no worker was free before the next slot was due, or the agent was disabled"


class Pool(Protocol):
    """Where engines are asked."""

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Calls a function, now or later, here or elsewhere."""
        ...


class Trouble(msgspec.Struct, frozen=True):
    """An error that concerns one account alone, as a value."""

    says: str


def outcome(call: Callable[[], T]) -> T | Trouble:
    """What a call gives, or what went wrong in it; what concerns the whole process (Retry, Stop) is raised."""
    try:
        return call()
    except (Retry, Stop):
        raise
    except Exception as error:
        return Trouble(f"{type(error).__name__}: {error}")


def carry_out(rooms: Rooms, deployment: Deployment) -> None:
    """Places what is intended and books what came of it."""
    execute(rooms, deployment)
    reconcile(rooms, deployment)


class Worker:
    """One worker: one connection, one thread, and a pool in which engines are asked."""

    def __init__(self, rooms: Rooms, *, pool: Pool | None = None) -> None:
        desk = rooms.config.desk
        self._rooms = rooms
        self._most, self._batch = desk.calls_in_flight, desk.batch
        self._pool = pool or ThreadPoolExecutor(self._most, thread_name_prefix="engine")
        self._waiting: deque[Task] = deque()
        self._beside: dict[str, Task] = {}
        self._owed: Counter[Lease] = Counter()
        self._flights: Counter[Lease] = Counter()
        self._in_doubt: set[str] = set()
        self._shelf = MarketShelf()
        self._answers: SimpleQueue[tuple[Flight, Answer]] = SimpleQueue()
        self.made = self.expired = self.failed = self.lost = 0
        # Of what no run says: whoever watches the home reads the runs.
        self.problem: str | None = None

    def turn(self, *, patience: float = 0.05) -> bool:
        """One turn; waits for an answer for `patience` seconds at most. True when there may be more at once."""
        before = self._settled
        try:
            self._expire()
            self._take()
            self._begin()
            self._conclude(patience)
            self._release()
            self._rooms.leases.beat_if_due()
        except DatabaseAway:
            self._set_aside()
            raise
        except Retry:
            self._let_go()
            raise
        return self._settled > before or self.busy

    @property
    def _in_flight(self) -> int:
        return self._flights.total()

    @property
    def _settled(self) -> int:
        return self.made + self.expired + self.failed + self.lost

    @property
    def busy(self) -> bool:
        """Whether there is something in hand."""
        return bool(self._owed)

    def words(self) -> str:
        """How it goes."""
        odd = [(self.expired, "expired"), (self.failed, "failed"), (self.lost, "taken over by others")]
        more = "".join(f", {count:,} {what}" for count, what in odd if count)
        return f"{plural(self.made, 'decision')} made, {self._in_flight:,} in flight{more}"

    def drain(self) -> None:
        """Takes in the answers that are on their way, as long as one comes now and then; asks nothing new."""
        self._waiting.clear()
        still = -1
        while self._in_flight and self._in_flight != still:
            still = self._in_flight
            self._conclude(_GRACE_SECONDS)

    def close(self) -> None:
        """Leaves what is in hand to others; a decision that was asked for and not answered is theirs to ask again."""
        if isinstance(self._pool, ThreadPoolExecutor):
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._rooms.leases.release_all()

    def _take(self) -> None:
        if self._waiting or self._in_flight >= self._most:
            return
        leases, book = self._rooms.leases, self._rooms.book
        held = leases.others() + len(self._owed)
        names = self._rooms.work.waiting(most=self._batch + held)
        taken = leases.take(map(book.stream, names), most=self._batch)
        self._owed.update(dict.fromkeys(taken, 0))
        # Leases come by name; whoever waited longest is asked about first.
        turns = {name: turn for turn, name in enumerate(names)}
        for lease in sorted(taken, key=lambda each: turns.get(each.stream.deployment, len(turns))):
            self._list(lease)

    def _list(self, lease: Lease) -> None:
        """What a deployment has to decide; what is too late is recorded as such at once."""
        name = lease.stream.deployment
        items = self._rooms.work.of(name)
        if not items or self._moved_away(name, items):
            return
        try:
            deployment, now = deploy(self._rooms, agent_of(name)), self._rooms.clock.now()
        except UnknownName:
            if self._rooms.book.removed_at(agent_of(name)) is None:
                raise
            # Removed in this very moment: the next turn finds that and records what was listed.
            return
        turn = self._rooms.book.turn(deployment.id)
        slots = [slot_of(deployment, item, turn=turn) for item in items]
        late = [slot for slot in slots if is_over(slot, now)]
        abandon(self._rooms, late, status="expired", error=_TOO_LATE)
        self.expired += len(late)
        in_time = [(item, slot) for item, slot in zip(items, slots, strict=True) if not is_over(slot, now)]
        tasks = [Task(lease, slot, item) for item, slot in in_time]
        first = {task.item.run_id for task in tasks}
        for task in tasks:
            if task.after in first:
                self._beside[task.after or ""] = task
            else:
                self._waiting.append(task)
        self._owed[lease] += len(tasks)

    def _moved_away(self, name: str, items: list[Item]) -> bool:
        """Whether the agent of a deployment was removed or runs as another one; then what was listed has expired."""
        book, agent = self._rooms.book, agent_of(name)
        found, is_removed = book.agent(agent), book.removed_at(agent) is not None
        if found is None or (deployment_id(found[1]) == name and not is_removed):
            return False
        why = f"{agent} was removed" if is_removed else f"{agent} runs as {deployment_id(found[1])} by now"
        deployment, turn = Deployment(book.owner, name, found[1], found[0]), book.turn(name)
        slots = [slot_of(deployment, item, turn=turn) for item in items]
        if book.head(name):
            abandon(self._rooms, slots, status="expired", error=why)
        # A stream that was never opened must not begin without its deposit.
        for item in items:
            self._rooms.work.remove(item.run_id)
        self.expired += len(items)
        return True

    def _expire(self) -> None:
        """Records decisions whose time passed while they waited for room; their deployments queue up again."""
        now = self._rooms.clock.now()
        while late := [task for task in self._waiting if is_over(task.slot, now)]:
            self._waiting = deque(task for task in self._waiting if not is_over(task.slot, now))
            by_lease: dict[Lease, list[Task]] = {}
            for task in late:
                if self._stands(task):
                    by_lease.setdefault(task.lease, []).append(task)
            for tasks in by_lease.values():
                abandon(self._rooms, [task.slot for task in tasks], status="expired", error=_TOO_LATE)
                self.expired += len(tasks)
                for task in tasks:
                    self._settle(task)
            self._release()

    def _begin(self) -> None:
        room = min(len(self._waiting), self._most - self._in_flight, self._batch)
        tasks = [self._waiting.popleft() for _ in range(room)]
        look = Look(self._rooms.clock.now(), self._rooms.tape.head()[0], self._shelf)
        flights = [flight for task in tasks if (flight := self._opened(task, look)) is not None]
        if not flights:
            return
        try:
            self._rooms.work.open([known(flight) for flight in flights])
        except DatabaseAway:
            raise
        except Retry:
            # Nobody was asked yet. Those whose lease still stands begin again, the others are not ours any more.
            self._rooms.leases.beat()
            self._waiting.extendleft(flight.task for flight in reversed(flights))
            return
        for flight in flights:
            self._ask(flight)

    def _opened(self, task: Task, look: Look) -> Flight | None:
        if not self._stands(task):
            return None
        try:
            opened = outcome(lambda: begun(self._rooms, task, look))
        except DatabaseAway:
            raise
        except Retry:
            self._rooms.leases.beat()
            self._waiting.append(task)
            return None
        if isinstance(opened, Opened):
            return Flight(task, opened)
        if isinstance(opened, Trouble):
            self._fail(task, opened)
        else:
            self._rooms.work.remove(opened.run_id)
            self._settle(task)
        return None

    def _ask(self, flight: Flight) -> None:
        answer = kept_answer(self._rooms, flight.opened)
        if answer is not None:
            self._arrive(flight, answer)
            return
        engine = outcome(lambda: self._rooms.engine(flight.opened.slot.deployment.agent))
        if isinstance(engine, Trouble):
            self._arrive(flight, Answer("", problem=engine.says))
        else:
            self._flights[flight.task.lease] += 1
            self._pool.submit(self._answer, engine, flight)

    def _arrive(self, flight: Flight, answer: Answer) -> None:
        """Puts an answer where the next turn finds it."""
        self._flights[flight.task.lease] += 1
        self._answers.put((flight, answer))

    def _answer(self, engine: Engine, flight: Flight) -> None:
        """Asks in a thread of the pool; what an engine does not answer for itself becomes a problem of its answer."""
        try:
            answer = engine.decide(flight.opened.packet)
        except Exception as error:
            answer = Answer("", problem=f"the engine broke: {type(error).__name__}: {error}")
        self._answers.put((flight, answer))

    def _conclude(self, patience: float) -> None:
        """Records every answer that is there, after waiting a little for the first."""
        while arrived := self._arrived(patience):
            patience = 0.0
            ours = deque((flight, answer) for flight, answer in arrived if self._stands(flight.task))
            try:
                self._keep_answers(ours)
                self._archive_together(ours)
                if self._finish_together(ours):
                    ours.clear()
                while ours:
                    self._finish(*ours[0])
                    ours.popleft()
            except DatabaseAway:
                for flight, answer in ours:
                    self._in_doubt.add(flight.task.item.run_id)
                    self._arrive(flight, answer)
                raise
            self._rooms.leases.beat_if_due()

    def _keep_answers(self, ours: "deque[tuple[Flight, Answer]]") -> None:
        """Keeps each answer by itself and first: what a model was paid for must not be lost with the others.

        One that cannot be kept, since an engine says that it cost more than any number, fails its run and is removed.
        """
        for each in list(ours):
            trouble = outcome(partial(keep_answer, self._rooms, each[0].opened, each[1]))
            if isinstance(trouble, Trouble):
                ours.remove(each)
                self._fail(each[0].task, trouble)

    def _archive_together(self, ours: "Iterable[tuple[Flight, Answer]]") -> None:
        """Stores all texts at once, and before a transaction is open: others write to the book while the disk works.

        What does not work here is said when each decision is recorded.
        """
        if self._rooms.config.archive.packets:
            spoken = [(flight.opened.packet, answer.reply, answer.reasoning) for flight, answer in ours]
            self._rooms.archive.keep_all(text for each in spoken for text in texts_of(*each))

    def _arrived(self, patience: float) -> "list[tuple[Flight, Answer]]":
        found: list[tuple[Flight, Answer]] = []
        while self._in_flight and len(found) < _TOGETHER:
            try:
                wait_for = 0.0 if found else patience
                found.append(self._answers.get(timeout=wait_for) if wait_for else self._answers.get_nowait())
            except Empty:
                break
            self._flights -= Counter([found[-1][0].task.lease])
        return found

    def _finish_together(self, arrived: "Collection[tuple[Flight, Answer]]") -> bool:
        """Records several decisions with one wait for the disk; False, and nothing is written, if one does not work."""
        if len(arrived) < 2 or any(flight.task.item.run_id in self._in_doubt for flight, _ in arrived):
            return False
        try:
            runs = outcome(lambda: self._recorded(arrived))
        except DatabaseAway:
            self._in_doubt.update(flight.task.item.run_id for flight, _ in arrived)
            return False
        except Retry:
            return False
        if isinstance(runs, Trouble):
            return False
        for (flight, _), run in zip(arrived, runs, strict=True):
            self._count(flight.task, run)
        return True

    def _recorded(self, arrived: "Collection[tuple[Flight, Answer]]") -> list[DecisionRun]:
        with self._rooms.log.together():
            return [concluded(self._rooms, flight, answer) for flight, answer in arrived]

    def _finish(self, flight: Flight, answer: Answer) -> None:
        if not self._stands(flight.task):
            return
        try:
            run = outcome(lambda: self._made(flight) or concluded(self._rooms, flight, answer))
        except Retry:
            self._rooms.leases.beat()
            self._arrive(flight, answer)
            return
        if isinstance(run, Trouble):
            self._fail(flight.task, run)
        else:
            self._count(flight.task, run)

    def _made(self, flight: Flight) -> DecisionRun | None:
        """The run, if a transaction whose end nobody heard of was committed."""
        run_id = flight.task.item.run_id
        return self._rooms.book.run(run_id) if run_id in self._in_doubt else None

    def _count(self, task: Task, run: DecisionRun) -> None:
        self.made += 1
        self._settle(task)
        if run.status == "placed":
            self._carry_out(task.slot.deployment)

    def _carry_out(self, deployment: Deployment) -> None:
        """Places the orders at once; what does not work is left to the executor, which does the same."""
        try:
            trouble = outcome(lambda: carry_out(self._rooms, deployment))
        except Retry:
            return
        if isinstance(trouble, Trouble):
            self.problem = f"{deployment.id}: {trouble.says}"

    def _fail(self, task: Task, trouble: "Trouble") -> None:
        """One agent's trouble must not stop the others: it is recorded with its run, and the desk goes on."""
        self.failed += 1
        abandon(self._rooms, [task.slot], status="failed", error=trouble.says)
        self._settle(task)

    def _settle(self, task: Task) -> None:
        """A decision is made or recorded as failed; what waited for it may begin."""
        self._owed[task.lease] -= 1
        self._in_doubt.discard(task.item.run_id)
        follows = self._beside.pop(task.item.run_id, None)
        if follows is not None:
            self._waiting.append(follows)

    def _stands(self, task: Task) -> bool:
        """Whether a decision is still ours to make."""
        if self._rooms.leases.of(task.lease.stream) == task.lease:
            return True
        self.lost += 1
        if task.lease in self._owed:
            self._settle(task)
        return False

    def _set_aside(self) -> None:
        """The database is away: of each lease only the answers on their way are owed, and the rest is listed anew."""
        self._waiting.clear()
        self._beside.clear()
        self._owed = Counter({lease: self._flights[lease] for lease in self._owed})

    def _let_go(self) -> None:
        """The database was busy for too long: everything is left to whoever comes first, us included."""
        self._waiting.clear()
        self._beside.clear()
        self._owed.clear()
        with suppress(Retry):
            self._rooms.leases.release_all()

    def _release(self) -> None:
        idle = [lease for lease, owed in self._owed.items() if not owed]
        for lease in idle:
            del self._owed[lease]
        self._rooms.leases.release(idle)
