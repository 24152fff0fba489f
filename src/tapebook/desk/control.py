"""What a person at the desk can do at any time: halt, resume, flatten.

Each is one event in the owner's stream, on which nobody else holds a lease: guard and gate read it fresh, so it
works on a running desk within one tick, without stopping it.
"""

from collections.abc import Callable, Sequence

import msgspec

from tapebook.book.decision_queue import DecisionQueue
from tapebook.book.events import DeskFlattened, DeskHalted, DeskResumed, draft_event
from tapebook.book.store import Book
from tapebook.broker import Broker
from tapebook.clock import Clock
from tapebook.desk.agents import DeploymentDirectory
from tapebook.domain.agent import Deployment
from tapebook.errors import HomeError, StaleWriter, UnknownName
from tapebook.home import exclusive_lock
from tapebook.log import Log
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.wiring import Rooms

# Each lost race means that somebody else has written: five in a row do not happen by chance.
_ATTEMPTS = 5


class HaltReport(msgspec.Struct, frozen=True):
    """After a halt or a resume: whether it changed anything, and every halt that stands, with its reason."""

    subject: str
    changed: bool
    halts: dict[str, str]


class FlattenReport(msgspec.Struct, frozen=True):
    """One deployment that is to be flat: symbols being closed, orders cancelled, whether a running desk does it.

    `closed` are symbols whose closing order has filled already.
    """

    deployment: str
    closing: list[str]
    cancelled: int
    left_to_desk: bool
    closed: list[str] = []


def halt(book: Book, log: Log, clock: Clock, subject: str, *, reason: str) -> HaltReport:
    """From now on a deployment, or (empty) every one, sends no order; the same halt again changes nothing."""
    before = book.halts()
    # An equal halt is not written again: a person may press it many times.
    if before.get(subject) != reason:
        _append_owner_event(book, log, clock, DeskHalted(subject, reason))
    return HaltReport(subject, before.get(subject) != reason, book.halts())


def resume(book: Book, log: Log, clock: Clock, subject: str, *, reason: str) -> HaltReport:
    """Ends the halt of a deployment, or (empty) that of the whole desk; other halts stand."""
    stood = subject in book.halts()
    if stood:
        _append_owner_event(book, log, clock, DeskResumed(subject, reason))
    return HaltReport(subject, stood, book.halts())


def flatten(rooms: Rooms, subjects: Sequence[str], *, reason: str, symbol: str = "") -> list[FlattenReport]:
    """Wants deployments flat, in one symbol or (empty) in all: orders are cancelled and positions closed.

    That is done here, or by the desk that runs.
    """
    for subject in subjects:
        _append_owner_event(rooms.book, rooms.log, rooms.clock, DeskFlattened(subject, reason, symbol))
    roster = DeploymentDirectory(rooms.book, rooms.work, rooms.broker)
    found = [roster.opened_deployment(subject) for subject in subjects]
    return [_flatten_deployment(rooms, deployment, symbol) for deployment in found if deployment is not None]


def require_traded(
    book: Book, work: DecisionQueue, subjects: Sequence[str], symbol: str, *, broker: Callable[[str], Broker]
) -> None:
    """Refuses a symbol that none of some deployments watches, holds or has an order for: it is mistyped."""
    roster, known = DeploymentDirectory(book, work, broker), set[str]()
    for subject in subjects:
        running = roster.opened_deployment(subject)
        account = book.account(subject, seq=book.head(subject))
        known |= account.portfolio.positions.keys() | set(running.agent.watchlist if running else ())
        known |= {order.symbol for order, _ in book.working_orders(subject)}
    if not subjects:
        # Who never ran trades nothing else than it will.
        known.update(*(profile.watchlist for _, profile in book.agents()))
    if symbol not in known:
        raise UnknownName(f"nothing here trades {symbol!r}; symbols: {', '.join(sorted(known))}")


def _flatten_deployment(rooms: Rooms, deployment: Deployment, symbol: str) -> FlattenReport:
    before = _orders_of_runs(rooms.book, deployment)
    done = _flatten_here_if_idle(rooms, deployment)
    working = [order for order, _ in rooms.book.working_orders(deployment.id)]
    closing = sorted(order.symbol for order in working if not order.run_id and symbol in ("", order.symbol))
    return FlattenReport(
        deployment.id, closing, before - _orders_of_runs(rooms.book, deployment) if done else 0, not done
    )


def _flatten_here_if_idle(rooms: Rooms, deployment: Deployment) -> bool:
    """Executes what is due at once; False when another process works in this home."""
    # That process finds the event itself: it reads the owner's stream before every decision.
    try:
        with exclusive_lock(rooms.home):
            return _execute_under_lease(rooms, deployment)
    except HomeError:
        return False


def _execute_under_lease(rooms: Rooms, deployment: Deployment) -> bool:
    rooms.leases.watch_others()
    leases = rooms.leases.acquire([rooms.book.stream(deployment.id)], most=1)
    try:
        if leases:
            execute_orders(rooms, deployment)
            reconcile_account(rooms, deployment)
    finally:
        rooms.leases.release(leases)
    return bool(leases)


def _orders_of_runs(book: Book, deployment: Deployment) -> int:
    return sum(bool(order.run_id) for order, _ in book.working_orders(deployment.id))


def _append_owner_event(book: Book, log: Log, clock: Clock, body: msgspec.Struct) -> None:
    draft, keyed = draft_event(clock.now(), body), log.keyed
    if keyed is not None and keyed.wrote_earlier("", draft):
        # Somebody may have done the opposite since: what was asked for once is done once.
        return
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            book.append("", [draft], expected_seq=book.head())
            return
        except StaleWriter:
            # Another process saved an agent in between; a halt must not fail for that.
            if attempt == _ATTEMPTS:
                raise
