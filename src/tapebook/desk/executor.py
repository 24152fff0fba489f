"""Follows what is in the market between decisions: working orders and open positions.

A deployment with a working order is looked at every turn; one with only positions every minute of the market, and
whenever the owner's stream has moved (a request to be flat is in it). Its lease is taken for that moment; while a
worker holds it, the worker does the same.
"""

from tapebook.desk.agents import DeploymentDirectory
from tapebook.desk.worker import WorkerError, execute_and_reconcile, result_or_error
from tapebook.domain.text import plural
from tapebook.domain.units import MINUTE, floor_to_step
from tapebook.errors import StaleWriter
from tapebook.wiring import Rooms


class Executor:
    """Places, follows and books."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._roster = DeploymentDirectory(rooms.book, rooms.work, rooms.broker)
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._said = rooms.book.head()
        self.served = self.lost = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Looks after the deployments that are due, a batch at most; True when there is more to do."""
        due, batch = self._due(), self._rooms.config.desk.batch
        if not due:
            return False
        self._rooms.leases.watch_others()
        taken = self._rooms.leases.acquire(map(self._rooms.book.stream, due), most=batch)
        self._turn += 1
        try:
            for lease in taken:
                self._serve(lease.stream.deployment)
                self._rooms.leases.heartbeat_if_due()
        finally:
            self._rooms.leases.release(taken)
        return len(due) > batch

    def progress_line(self) -> str:
        """The progress in one line."""
        lost = f", {plural(self.lost, 'time')} too late" if self.lost else ""
        return f"serves {plural(self.served, 'account')}{lost}"

    def close(self) -> None:
        """Leaves what is in hand to others."""
        self._rooms.leases.release_all()

    def _due(self) -> list[str]:
        now, head = self._rooms.clock.now(), self._rooms.book.head()
        valued_before = floor_to_step(now, MINUTE) if head == self._said else now
        self._said = head
        held = self._rooms.work.deployments_with_positions(before=valued_before)
        # Whoever waited longest comes first, so that a batch that is always full leaves nobody out.
        return sorted(
            {*self._rooms.work.deployments_with_orders(), *held}, key=lambda each: (self._turns.get(each, 0), each)
        )

    def _serve(self, deployment: str) -> None:
        found = self._roster.opened_deployment(deployment)
        self._turns[deployment] = self._turn
        if found is None:
            return
        try:
            trouble = result_or_error(lambda: execute_and_reconcile(self._rooms, found))
        except StaleWriter:
            # Somebody was faster; what is left to do is done at the next turn, or by them.
            self.lost += 1
            return
        if isinstance(trouble, WorkerError):
            self.problem = f"{deployment}: {trouble.says}"
        self.served += 1
