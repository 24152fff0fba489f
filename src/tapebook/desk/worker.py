"""Makes decisions: many engines are asked at once, one thread reads and writes.

One turn (`Worker.turn`):

1. `_expire` records what waited for too long, and `_take_tasks` takes the leases of deployments that have something to
   decide, as many as there is room for and a batch at most: whose last decision is the oldest come first, so that too
   much work is shed fairly;
2. `_begin` makes packets as far as there is room in flight (`begin_task`), stores what each decision may know (an
   earlier attempt's watermarks count), and asks the engines in a pool of threads;
3. `_conclude` records the answers that have come (`finish_task`), and places their orders;
4. leases of deployments that have nothing left are released, the others get a heartbeat.

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

from tapebook.book.decision_queue import KnownAsOf, QueuedDecision
from tapebook.context import MarketCache
from tapebook.decision import Engine, EngineAnswer
from tapebook.domain.agent import Deployment, agent_name_of, deployment_id
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import plural
from tapebook.domain.units import floor_to_step
from tapebook.errors import BrokerAway, DatabaseAway, Retry, Stop, UnknownName
from tapebook.log import Lease, Stream
from tapebook.log.store import is_clock_set_back
from tapebook.tick.decide import (
    MarketCut,
    PreparedDecision,
    Slot,
    archived_texts,
    record_unmade_runs,
    store_answer,
    stored_answer,
)
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.story import (
    conclude_decision,
    conclude_shadow,
    deploy_agent,
    prepare_decision,
    prepare_shadow,
    shadow_profile,
)
from tapebook.wiring import Rooms


class Task(msgspec.Struct, frozen=True):
    """One decision under a lease."""

    lease: Lease
    slot: Slot
    item: QueuedDecision

    @property
    def after(self) -> str | None:
        """The run that must be made before: a shadow waits for the decision it stands beside."""
        if self.slot.trigger != "shadow":
            return None
        return msgspec.structs.replace(self.slot, trigger="schedule", branch="main").run_id()


class PendingAnswer(msgspec.Struct, frozen=True):
    """A question that was asked."""

    task: Task
    opened: PreparedDecision


def slot_of_item(deployment: Deployment, item: QueuedDecision, *, turn: int) -> Slot:
    """The slot of a row; `turn` is the newest it can have, before which the clock went back so often."""
    agent = shadow_profile(deployment.agent) if item.trigger == "shadow" else deployment.agent
    beside = msgspec.structs.replace(deployment, agent=agent)
    slot = Slot(beside, item.symbol, item.scheduled_for, item.trigger, item.branch, turn)
    return slot if not turn or slot.run_id() == item.run_id else slot_of_item(deployment, item, turn=turn - 1)


def has_expired(slot: Slot, now: int) -> bool:
    """Whether the time of a slot has passed: its agent has a newer one, or does not trade any more.

    One that a clock which was ahead has listed is over too: when its time comes, it is another one.
    """
    agent = slot.deployment.agent
    newest = floor_to_step(now, agent.cadence_ms)
    passed = newest > slot.scheduled_for or is_clock_set_back(slot.scheduled_for, now)
    return slot.trigger != "manual" and (passed or not agent.enabled)


def begin_task(rooms: Rooms, task: Task, look: MarketCut, *, followed: bool) -> PreparedDecision | DecisionRun:
    """The question of a decision; a shadow's is the question of the decision it stands beside."""
    if task.after is None:
        item = task.item
        return prepare_decision(rooms, task.slot, known=item.known, look=look, decided=item.made, followed=followed)
    main = rooms.book.run(task.after)
    if main is None:
        raise UnknownName(f"there is no run {task.after}, beside which this shadow was to decide")
    return prepare_shadow(rooms, task.slot, main)


def finish_task(rooms: Rooms, flight: PendingAnswer, answer: EngineAnswer, *, tape_seq: int) -> DecisionRun:
    """The run that an answer becomes, judged by a market that ends at a commit of the tape."""
    end = conclude_decision if flight.task.after is None else conclude_shadow
    return end(rooms, flight.opened, answer, tape_seq=tape_seq)


def item_with_watermarks(flight: PendingAnswer) -> QueuedDecision:
    """The row of a decision with what it may know."""
    situation = flight.opened.situation
    return msgspec.structs.replace(flight.task.item, known=KnownAsOf(situation.as_of, situation.watermarks))


T = TypeVar("T")

# How many decisions are recorded with one wait for the disk, at most.
_RUNS_PER_COMMIT = 32
# How often a worker looks for free deployments in a turn when others were faster with what it chose.
_CLAIM_ATTEMPTS = 4
# For how long a look at a market in which nothing was observed since is as good as another one.
_LOOK_MS = 1_000
# How long a worker that stops waits for the next answer.
_GRACE_SECONDS = 3.0
_EXPIRED_REASON = "no desk ran or no worker was free before the next slot was due, or the agent was disabled"


class EnginePool(Protocol):
    """Where engines are asked."""

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Calls a function, now or later, here or elsewhere."""
        ...


class WorkerError(msgspec.Struct, frozen=True):
    """An error that concerns one account alone, as a value."""

    says: str


def result_or_error(call: Callable[[], T]) -> T | WorkerError:
    """What a call gives, or what went wrong in it; what concerns the whole process (Retry, Stop) is raised.

    A broker that cannot be read concerns the accounts that are with it: the others must not wait for it.
    """
    try:
        return call()
    except BrokerAway as error:
        return WorkerError(f"{type(error).__name__}: {error}")
    except (Retry, Stop):
        raise
    except Exception as error:
        return WorkerError(f"{type(error).__name__}: {error}")


def execute_and_reconcile(rooms: Rooms, deployment: Deployment) -> None:
    """Places what is intended and books what came of it."""
    execute_orders(rooms, deployment)
    reconcile_account(rooms, deployment)


class Worker:
    """One worker: one connection, one thread, and a pool in which engines are asked."""

    def __init__(self, rooms: Rooms, *, pool: EnginePool | None = None) -> None:
        desk = rooms.config.desk
        self._rooms = rooms
        self._most, self._batch = desk.calls_in_flight, desk.batch
        self._pool = pool or ThreadPoolExecutor(self._most, thread_name_prefix="engine")
        self._waiting: deque[Task] = deque()
        self._beside: dict[str, Task] = {}
        self._owed: Counter[Lease] = Counter()
        self._flights: Counter[Lease] = Counter()
        self._in_doubt: set[str] = set()
        self._shelf = MarketCache()
        # The market as it was last looked at: reading it for every batch would take more than the rest.
        self._look: MarketCut | None = None
        # Accounts that have caught up with their broker for a decision that is begun now, and where their streams end.
        self._followed: dict[str, int] = {}
        self._answers: SimpleQueue[tuple[PendingAnswer, EngineAnswer]] = SimpleQueue()
        self.made = self.expired = self.failed = self.lost = 0
        # Of what no run says: whoever watches the home reads the runs.
        self.problem: str | None = None

    def turn(self, *, wait_seconds: float = 0.05) -> bool:
        """One turn; waits for an answer for `wait_seconds` seconds at most. True when there may be more at once."""
        before = self._settled_count
        try:
            self._expire()
            self._take_tasks()
            self._begin()
            # Nobody waits for an answer while there is room to ask for more.
            self._conclude(0.0 if self._waiting and self._in_flight < self._most else wait_seconds)
            self._release()
            self._rooms.leases.heartbeat_if_due()
        except DatabaseAway:
            self._set_aside()
            raise
        except Retry:
            self._let_go()
            raise
        return self._settled_count > before or self.is_busy

    @property
    def _in_flight(self) -> int:
        return self._flights.total()

    @property
    def _settled_count(self) -> int:
        return self.made + self.expired + self.failed + self.lost

    @property
    def is_busy(self) -> bool:
        """Whether there is something in hand."""
        return bool(self._owed)

    def progress_line(self) -> str:
        """The progress in one line."""
        odd = [(self.expired, "expired"), (self.failed, "failed"), (self.lost, "taken over by others")]
        more = "".join(f", {count:,} {what}" for count, what in odd if count)
        return f"{plural(self.made, 'decision')} made, {self._in_flight:,} in flight{more}"

    def drain_answers(self) -> None:
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

    def _take_tasks(self) -> None:
        leases = self._rooms.leases
        # Workers that are woken together want the same deployments: whoever is too late for some looks again at once.
        for _ in range(_CLAIM_ATTEMPTS):
            if self._waiting or self._in_flight >= self._most:
                return
            chosen, late = self._deployments_for_room()
            taken = leases.acquire([*chosen, *late], most=len(chosen) + len(late))
            self._owed.update(dict.fromkeys(taken, 0))
            # Leases come by name; whoever waited longest is asked about first.
            turns = {stream: turn for turn, stream in enumerate([*chosen, *late])}
            for lease in sorted(taken, key=lambda each: turns.get(each.stream, len(turns))):
                self._list(lease, only_late=lease.stream in late)
            if len(taken) == len(turns):
                return

    def _deployments_for_room(self) -> tuple[list[Stream], list[Stream]]:
        """Deployments with as many decisions as there is room for, and others with slots whose time may be over.

        What nobody asks about is left to other workers. What is over is recorded for all of them, also while there is
        too much to decide: else the list would grow by a slot for every turn that a deployment waits.
        """
        leases, book = self._rooms.leases, self._rooms.book
        held = leases.watch_others() + len(self._owed)
        waiting = self._rooms.work.waiting_deployments(most=2 * self._batch + held)
        counts = {book.stream(name): count for name, count in waiting.items()}
        chosen, late, room = list[Stream](), list[Stream](), self._most - self._in_flight
        for stream in leases.available(counts):
            if room > 0 and len(chosen) < self._batch:
                chosen.append(stream)
                room -= counts[stream].newest
            elif counts[stream].older and len(late) < self._batch:
                late.append(stream)
        return chosen, late

    def _list(self, lease: Lease, *, only_late: bool) -> None:
        """What a deployment has to decide, or nothing but what is too late, which is recorded as such at once."""
        name = lease.stream.deployment
        items = self._rooms.work.queued_for(name)
        if not items or self._moved_away(name, items):
            return
        try:
            deployment = deploy_agent(self._rooms.book, self._rooms.clock, agent_name_of(name))
            now = self._rooms.clock.now()
        except UnknownName:
            if self._rooms.book.removed_at(agent_name_of(name)) is None:
                raise
            # Removed in this very moment: the next turn finds that and records what was listed.
            return
        turn = self._rooms.book.set_back_count(deployment.id)
        slots = [slot_of_item(deployment, item, turn=turn) for item in items]
        late = [slot for slot in slots if has_expired(slot, now)]
        record_unmade_runs(self._rooms, late, status="expired", error=_EXPIRED_REASON)
        self.expired += len(late)
        if only_late:
            return
        in_time = [(item, slot) for item, slot in zip(items, slots, strict=True) if not has_expired(slot, now)]
        tasks = [Task(lease, slot, item) for item, slot in in_time]
        first = {task.item.run_id for task in tasks}
        for task in tasks:
            if task.after in first:
                self._beside[task.after or ""] = task
            else:
                self._waiting.append(task)
        self._owed[lease] += len(tasks)

    def _moved_away(self, name: str, items: list[QueuedDecision]) -> bool:
        """Whether the agent of a deployment was removed or runs as another one; then what was listed has expired."""
        book, agent = self._rooms.book, agent_name_of(name)
        found, is_removed = book.agent(agent), book.removed_at(agent) is not None
        if found is None or (deployment_id(found[1]) == name and not is_removed):
            return False
        why = f"{agent} was removed" if is_removed else f"{agent} runs as {deployment_id(found[1])} by now"
        deployment, turn = Deployment(book.owner, name, found[1], found[0]), book.set_back_count(name)
        slots = [slot_of_item(deployment, item, turn=turn) for item in items]
        if book.head(name):
            record_unmade_runs(self._rooms, slots, status="expired", error=why)
        # A stream that was never opened must not begin without its deposit.
        for item in items:
            self._rooms.work.remove_decision(item.run_id)
        self.expired += len(items)
        return True

    def _expire(self) -> None:
        """Records decisions whose time passed while they waited for room; their deployments queue up again."""
        now = self._rooms.clock.now()
        while late := [task for task in self._waiting if has_expired(task.slot, now)]:
            self._waiting = deque(task for task in self._waiting if not has_expired(task.slot, now))
            by_lease: dict[Lease, list[Task]] = {}
            for task in late:
                if self._is_still_ours(task):
                    by_lease.setdefault(task.lease, []).append(task)
            for tasks in by_lease.values():
                record_unmade_runs(self._rooms, [task.slot for task in tasks], status="expired", error=_EXPIRED_REASON)
                self.expired += len(tasks)
                for task in tasks:
                    self._settle(task)
            self._release()

    def _begin(self) -> None:
        room = min(len(self._waiting), self._most - self._in_flight, self._batch)
        tasks = [self._waiting.popleft() for _ in range(room)]
        look = MarketCut(self._rooms.clock.now(), self._rooms.tape.head()[0], self._shelf)
        if not self._look or self._look.tape_seq != look.tape_seq or look.as_of - self._look.as_of >= _LOOK_MS:
            self._look = look
        self._followed.clear()
        with self._rooms.log.read_once():
            flights = [flight for task in tasks if (flight := self._open_task(task, look)) is not None]
        if not flights:
            return
        try:
            self._rooms.work.record_known([item_with_watermarks(flight) for flight in flights])
        except DatabaseAway:
            raise
        except Retry:
            # Nobody was asked yet. Those whose lease still stands begin again, the others are not ours any more.
            self._rooms.leases.heartbeat()
            self._waiting.extendleft(flight.task for flight in reversed(flights))
            return
        for flight in flights:
            self._ask(flight)

    def _open_task(self, task: Task, look: MarketCut) -> PendingAnswer | None:
        if not self._is_still_ours(task):
            return None
        book, name = self._rooms.book, task.slot.deployment.id
        try:
            followed = self._followed.get(name) == book.head(name)
            opened = result_or_error(
                lambda: begin_task(self._rooms, task, self._look_for(task, look), followed=followed)
            )
        except DatabaseAway:
            raise
        except Retry:
            self._rooms.leases.heartbeat()
            self._waiting.append(task)
            return None
        if isinstance(opened, PreparedDecision):
            self._followed[name] = book.head(name)
            return PendingAnswer(task, opened)
        if isinstance(opened, WorkerError):
            self._fail(task, opened)
        else:
            self._rooms.work.remove_decision(opened.run_id)
            self._settle(task)
        return None

    def _look_for(self, task: Task, newest: MarketCut) -> MarketCut:
        """The market as it was read a moment ago, if nothing was observed since and the account has done nothing."""
        earlier, log = self._look, self._rooms.log
        if earlier is None or not task.slot.scheduled_for <= earlier.as_of <= newest.as_of:
            return newest
        return earlier if log.head(task.lease.stream, lease=task.lease).known_at <= earlier.as_of else newest

    def _ask(self, flight: PendingAnswer) -> None:
        answer = stored_answer(
            flight.opened,
            engine_of=self._rooms.engine,
            replies=self._rooms.replies,
            archive=self._rooms.archive,
            now=self._rooms.clock.now(),
        )
        if answer is not None:
            self._arrive(flight, answer)
            return
        engine = result_or_error(lambda: self._rooms.engine(flight.opened.slot.deployment.agent))
        if isinstance(engine, WorkerError):
            self._arrive(flight, EngineAnswer("", problem=engine.says))
        else:
            self._flights[flight.task.lease] += 1
            self._pool.submit(self._answer, engine, flight)

    def _arrive(self, flight: PendingAnswer, answer: EngineAnswer) -> None:
        """Puts an answer where the next turn finds it."""
        self._flights[flight.task.lease] += 1
        self._answers.put((flight, answer))

    def _answer(self, engine: Engine, flight: PendingAnswer) -> None:
        """Asks in a thread of the pool; what an engine does not answer for itself becomes a problem of its answer."""
        try:
            answer = engine.decide(flight.opened.packet())
        except Exception as error:
            answer = EngineAnswer("", problem=f"the engine broke: {type(error).__name__}: {error}")
        self._answers.put((flight, answer))

    def _conclude(self, wait_seconds: float) -> None:
        """Records every answer that is there, after waiting a little for the first."""
        while arrived := self._new_answers(wait_seconds):
            wait_seconds = 0.0
            ours = deque((flight, answer) for flight, answer in arrived if self._is_still_ours(flight.task))
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
            self._rooms.leases.heartbeat_if_due()

    def _keep_answers(self, ours: "deque[tuple[PendingAnswer, EngineAnswer]]") -> None:
        """Keeps each answer by itself and first: what a model was paid for must not be lost with the others."""
        # One that cannot be kept, since an engine says that it cost more than any number, fails its run and is
        # removed.
        for each in list(ours):
            trouble = result_or_error(partial(store_answer, self._rooms, each[0].opened, each[1]))
            if isinstance(trouble, WorkerError):
                ours.remove(each)
                self._fail(each[0].task, trouble)

    def _archive_together(self, ours: "Iterable[tuple[PendingAnswer, EngineAnswer]]") -> None:
        """Stores all texts at once, and before a transaction is open: others write to the book while the disk works."""
        # What does not work here is said when each decision is recorded.
        if self._rooms.config.archive.packets:
            spoken = [(flight.opened.packet(), answer.reply, answer.reasoning) for flight, answer in ours]
            self._rooms.archive.store_contents(text for each in spoken for text in archived_texts(*each))

    def _new_answers(self, wait_seconds: float) -> "list[tuple[PendingAnswer, EngineAnswer]]":
        found: list[tuple[PendingAnswer, EngineAnswer]] = []
        while self._in_flight and len(found) < _RUNS_PER_COMMIT:
            try:
                wait_for = 0.0 if found else wait_seconds
                found.append(self._answers.get(timeout=wait_for) if wait_for else self._answers.get_nowait())
            except Empty:
                break
            self._flights -= Counter([found[-1][0].task.lease])
        return found

    def _finish_together(self, arrived: "Collection[tuple[PendingAnswer, EngineAnswer]]") -> bool:
        """Records several decisions with one wait for the disk; False, and nothing is written, if one does not work."""
        if any(flight.task.item.run_id in self._in_doubt for flight, _ in arrived):
            return False
        try:
            runs = result_or_error(lambda: self._record_runs(arrived))
        except DatabaseAway:
            self._in_doubt.update(flight.task.item.run_id for flight, _ in arrived)
            return False
        except Retry:
            return False
        if isinstance(runs, WorkerError):
            return False
        for (flight, _), run in zip(arrived, runs, strict=True):
            self._count(flight.task, run)
        return True

    def _record_runs(self, arrived: "Collection[tuple[PendingAnswer, EngineAnswer]]") -> list[DecisionRun]:
        tape_seq = self._rooms.tape.head()[0]
        with self._rooms.log.one_transaction():
            return [finish_task(self._rooms, flight, answer, tape_seq=tape_seq) for flight, answer in arrived]

    def _finish(self, flight: PendingAnswer, answer: EngineAnswer) -> None:
        if not self._is_still_ours(flight.task):
            return
        try:
            run = result_or_error(lambda: self._committed_run(flight) or self._record_runs([(flight, answer)])[0])
        except Retry:
            self._rooms.leases.heartbeat()
            self._arrive(flight, answer)
            return
        if isinstance(run, WorkerError):
            self._fail(flight.task, run)
        else:
            self._count(flight.task, run)

    def _committed_run(self, flight: PendingAnswer) -> DecisionRun | None:
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
            trouble = result_or_error(lambda: execute_and_reconcile(self._rooms, deployment))
        except Retry:
            return
        if isinstance(trouble, WorkerError):
            self.problem = f"{deployment.id}: {trouble.says}"

    def _fail(self, task: Task, trouble: "WorkerError") -> None:
        """One agent's trouble must not stop the others: it is recorded with its run, and the desk goes on."""
        self.failed += 1
        record_unmade_runs(self._rooms, [task.slot], status="failed", error=trouble.says)
        self._settle(task)

    def _settle(self, task: Task) -> None:
        """A decision is made or recorded as failed; what waited for it may begin."""
        self._owed[task.lease] -= 1
        self._in_doubt.discard(task.item.run_id)
        follows = self._beside.pop(task.item.run_id, None)
        if follows is not None:
            self._waiting.append(follows)

    def _is_still_ours(self, task: Task) -> bool:
        """Whether a decision is still ours to make."""
        if self._rooms.leases.in_hand.get(task.lease.stream) == task.lease:
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
