"""One decision in the hands of a worker: from its row on the list to its run."""

import msgspec

from tapebook.book.work import Item, Known
from tapebook.decision import Answer
from tapebook.domain.agent import Deployment
from tapebook.domain.instants import floor
from tapebook.domain.run import DecisionRun
from tapebook.errors import UnknownName
from tapebook.log import Lease
from tapebook.log.set_back import gone_back
from tapebook.loop.shadow import conclude_shadow, open_shadow, shadowed
from tapebook.loop.slot import Look, Opened, Slot
from tapebook.loop.tick import begin, conclude
from tapebook.wiring import Rooms


class Task(msgspec.Struct, frozen=True):
    """One decision under a lease."""

    lease: Lease
    slot: Slot
    item: Item

    @property
    def after(self) -> str | None:
        """The run that must be made before: a shadow waits for the decision it stands beside."""
        if self.slot.trigger != "shadow":
            return None
        return msgspec.structs.replace(self.slot, trigger="schedule", branch="main").run_id()


class Flight(msgspec.Struct, frozen=True):
    """A question that was asked."""

    task: Task
    opened: Opened


def slot_of(deployment: Deployment, item: Item, *, turn: int) -> Slot:
    """The slot of a row; `turn` is the newest it can have, before which the clock went back so often."""
    agent = shadowed(deployment.agent) if item.trigger == "shadow" else deployment.agent
    beside = msgspec.structs.replace(deployment, agent=agent)
    slot = Slot(beside, item.symbol, item.scheduled_for, item.trigger, item.branch, turn)
    return slot if not turn or slot.run_id() == item.run_id else slot_of(deployment, item, turn=turn - 1)


def is_over(slot: Slot, now: int) -> bool:
    """Whether the time of a slot has passed: its agent has a newer one, or does not trade any more.

    One that a clock which was ahead has listed is over too: when its time comes, it is another one.
    """
    agent = slot.deployment.agent
    newest = floor(now, agent.cadence_ms)
    passed = newest > slot.scheduled_for or gone_back(slot.scheduled_for, now)
    return slot.trigger != "manual" and (passed or not agent.enabled)


def begun(rooms: Rooms, task: Task, look: Look) -> Opened | DecisionRun:
    """The question of a decision; a shadow's is the question of the decision it stands beside."""
    if task.after is None:
        return begin(rooms, task.slot, known=task.item.known, look=look)
    main = rooms.book.run(task.after)
    if main is None:
        raise UnknownName(f"there is no run {task.after}, beside which this shadow was to decide")
    return open_shadow(rooms, task.slot, main)


def concluded(rooms: Rooms, flight: Flight, answer: Answer) -> DecisionRun:
    """The run that an answer becomes."""
    end = conclude if flight.task.after is None else conclude_shadow
    return end(rooms, flight.opened, answer)


def known(flight: Flight) -> Item:
    """The row of a decision with what it may know."""
    situation = flight.opened.situation
    return msgspec.structs.replace(flight.task.item, known=Known(situation.as_of, situation.watermarks))


def agent_of(deployment: str) -> str:
    """The agent a deployment is named after."""
    return deployment.rpartition(".")[0]
