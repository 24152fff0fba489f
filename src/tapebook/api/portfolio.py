"""What a home is worth and how it goes: accounts with their positions, equity over time, and the status of all.

    tb.status()["equity_usd"]
    tb.equity("btc-5m", since="2026-01-05")["drawdown_share"]

Accounts are those of the agents that are here now, each at the prices last observed; a dry run has none.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TypedDict

from tapebook.api.open_home import AsOf, HomePart, parse_moment
from tapebook.backtest.book_range import BookRange
from tapebook.backtest.equity import EquityCache, EquityPoint, deepest_drawdown, equity_at, thin_points
from tapebook.book.materializer import Account, day_start
from tapebook.book.pages import BookPages
from tapebook.book.store import Book
from tapebook.db import Database
from tapebook.domain.agent import Deployment, deployment_id, is_dry_run
from tapebook.domain.position import Position
from tapebook.domain.units import E6, E8, iso_text, notional_usd_e6
from tapebook.domain.views import OrderView
from tapebook.errors import BadInput
from tapebook.lab.explain import known_order_view
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK, View
from tapebook.tick.prepare import account_activity
from tapebook.tick.quotes import position_marks
from tapebook.wiring import Rooms

# Incidents and working orders that a status names; the lists have all of them.
_MOST_NAMED = 50
# What a line on a wide screen can show.
MOST_POINTS = 600
_AT = attrgetter("at")


class PositionView(TypedDict):
    """A position at the price last observed; `unrealised_usd` is what closing it would realise before fees."""

    agent: str
    symbol: str
    side: str
    size: float
    entry_price: float
    mark: float
    value_usd: float
    unrealised_usd: float
    leverage: int
    opened_at: str | None
    run_id: str | None


class AccountView(TypedDict):
    """An agent's account: what it is worth, what the day came to, and what it holds.

    Its engine, whether it is enabled and why it is halted are those of now, whatever moment is asked about.
    """

    agent: str
    deployment: str
    engine: str
    enabled: bool
    halted: str | None
    equity_usd: float
    cash_usd: float
    exposure_usd: float
    day_usd: float
    realised_today_usd: float
    executed_today: int
    refused_last_hour: int
    losing_streak: int
    closed_trades: int
    won_trades: int
    net_pnl_usd: float
    positions: list[PositionView]
    last_run_id: str | None
    last_run_at: str | None


class HomePortfolioView(TypedDict):
    """The accounts of a home, or of one agent, and their sums."""

    as_of: str
    equity_usd: float
    cash_usd: float
    exposure_usd: float
    unrealised_usd: float
    day_usd: float
    accounts: list[AccountView]


class IncidentView(TypedDict):
    """A check of the home's health that failed, and what to do about it."""

    name: str
    detail: str


class CheckView(IncidentView):
    """A check of the home, and whether it is well."""

    ok: bool


class StatusView(HomePortfolioView):
    """How a home goes: its accounts, working orders, the costs of models today, every check, and those that fail."""

    orders: list[OrderView]
    model_usd_today: float
    halted: str | None
    healthy: bool
    checks: int
    health: list[CheckView]
    incidents: list[IncidentView]


class EquityPointView(TypedDict):
    """Equity at a moment, and how far it is below the highest before."""

    at: str
    equity_usd: float
    drawdown_share: float


class EquityView(TypedDict):
    """Equity over time, of one agent or of all together; `drawdown` is the deepest fall in it.

    An agent that began within the range counts with what it began with from the start of it.
    """

    agent: str | None
    since: str
    until: str
    start_usd: float
    end_usd: float
    change_usd: float
    change_share: float
    drawdown_usd: float
    drawdown_share: float
    points: list[EquityPointView]


class HomeEquityView(TypedDict):
    """Equity over time, of all agents together and of each."""

    together: EquityView
    agents: dict[str, EquityView]


class Portfolios(HomePart):
    """The accounts of a home."""

    def portfolio(self, agent: str | None = None, *, as_of: AsOf = None) -> HomePortfolioView:
        """What an agent, or all of them, hold and are worth, now or as of a moment."""
        with self._home.read() as rooms:
            moment, halts = self._home.moment(as_of), rooms.book.halts()
            accounts = [
                _account_view(rooms, each, moment, is_now=as_of is None, halted=halts.get(each.id))
                for each in _deployments(rooms.book, agent)
            ]
            return _portfolio_view(accounts, moment)

    def status(self) -> StatusView:
        """Equity, the day, positions, working orders, health and cost, all of this moment."""
        with self._home.read() as rooms:
            # Health knows the sources of the desk, which bring an event loop.
            from tapebook.desk.health import health_checks

            # Not what takes as long as there are decisions: pages ask often.
            checks, portfolio = health_checks(rooms, thorough=False), self.portfolio()
            orders = [known_order_view(each) for each in rooms.book.orders(working=True, most=_MOST_NAMED)]
            today = day_start(self._home.moment(None))
            spent = [rooms.replies.spent_usd_e6(each["deployment"], since=today) for each in portfolio["accounts"]]
            failed: list[IncidentView] = [
                {"name": check.name, "detail": check.detail} for check in checks if not check.ok
            ]
            return {
                **portfolio,
                "orders": orders,
                "model_usd_today": sum(spent) / E6,
                "halted": rooms.book.halts().get(""),
                "healthy": not failed,
                "checks": len(checks),
                "health": [{"name": check.name, "detail": check.detail, "ok": check.ok} for check in checks],
                "incidents": failed,
            }

    def now(self, as_of: AsOf = None) -> int:
        """The moment a home is at, in epoch milliseconds; or one that is given, if it has come."""
        return self._home.moment(as_of)

    def equity(
        self, agent: str | None = None, *, since: AsOf = None, until: AsOf = None, most: int = MOST_POINTS
    ) -> EquityView:
        """Equity over time, from the first account on or since a moment, with at most so many points."""
        lines, span = self._equity_lines(agent, since, until, most=most)
        return _equity_view(_sum_of_lines([line for line in lines.values() if line]), agent=agent, span=span, most=most)

    def equity_by_agent(
        self, *, since: AsOf = None, until: AsOf = None, most: int = MOST_POINTS, most_each: int = MOST_POINTS
    ) -> HomeEquityView:
        """Equity of all agents together and of each, read once; with at most so many points, and so many of each."""
        lines, span = self._equity_lines(None, since, until, most=min(most, most_each))
        together = _sum_of_lines([line for line in lines.values() if line])
        return {
            "together": _equity_view(together, agent=None, span=span, most=most),
            "agents": {name: _equity_view(line, agent=name, span=span, most=most_each) for name, line in lines.items()},
        }

    def _equity_lines(
        self, agent: str | None, since: AsOf, until: AsOf, *, most: int
    ) -> tuple[dict[str, list[EquityPoint]], tuple[int | None, int]]:
        """The line of each agent, and from when to when they go."""
        if most < 2:
            raise BadInput("a line has two points at least: ask for more with `most`")
        with self._home.read() as rooms:
            end = self._home.moment(until)
            begin = None if since is None else parse_moment(since)
            if begin is not None and begin >= end:
                raise BadInput(f"{iso_text(begin)} is not before {iso_text(end)}: give an earlier `since`")
            every = _deployments(rooms.book, agent)
            cache = self._home.equity_cache
            span, tape, book_db = (begin, end), rooms.tape, rooms.book_db
            lines = {
                each.agent.name: _equity_line(rooms.book, each, span, cache, tape=tape, book_db=book_db)
                for each in every
            }
            return lines, span


def _deployments(book: Book, agent: str | None) -> list[Deployment]:
    """Those whose accounts are shown: of the agents that are here and have begun."""
    # Agents that were removed have ended; asked for by name they can still be seen.
    if agent is not None:
        found = [book.find_agent(agent, removed=True)]
    else:
        agents, owner = book.agents(), book.owner
        found = [Deployment(owner, deployment_id(profile), profile, version) for version, profile in agents]
    return [each for each in found if not is_dry_run(each.id) and book.head(each.id)]


def _account_view(
    rooms: Rooms, deployment: Deployment, moment: int, *, is_now: bool, halted: str | None
) -> AccountView:
    book, name = rooms.book, deployment.id
    seq = book.head(name) if is_now else book.seq_as_of(name, moment)
    account, totals, view = book.account(name, seq=seq), book.trade_totals(name, seq=seq), View(moment)
    portfolio = account.portfolio
    marks = position_marks(rooms.tape, portfolio.positions.values(), view=view)
    activity = account_activity(book, rooms.tape, name, account, view=view, memory=rooms.memory)
    equity = portfolio.equity_usd_e6(marks)
    newest = BookPages(book, rooms.log, rooms.book_db).newest_run(name, seq=seq)
    held = [
        _position_view(deployment.agent.name, position, marks[symbol], account=account)
        for symbol, position in sorted(portfolio.positions.items())
    ]
    return {
        "agent": deployment.agent.name,
        "deployment": name,
        "engine": deployment.agent.engine or rooms.config.engine.default,
        "enabled": deployment.agent.enabled,
        "halted": halted,
        "equity_usd": equity / E6,
        "cash_usd": portfolio.cash_usd_e6 / E6,
        "exposure_usd": sum(abs(each["value_usd"]) for each in held),
        "day_usd": (equity - activity.day_start_equity_usd_e6) / E6,
        "realised_today_usd": activity.realised_today_usd_e6 / E6,
        "executed_today": activity.executed_today,
        "refused_last_hour": len(activity.refusals),
        "losing_streak": activity.losing_streak,
        "closed_trades": totals.count,
        "won_trades": totals.won,
        "net_pnl_usd": totals.net_usd_e6 / E6,
        "positions": held,
        "last_run_id": newest[0] if newest else None,
        "last_run_at": iso_text(newest[1]) if newest else None,
    }


def _position_view(agent: str, held: Position, mark_e8: int, *, account: Account) -> PositionView:
    trade = account.open_trades.get(held.symbol)
    return {
        "agent": agent,
        "symbol": held.symbol,
        "side": "long" if held.size_e8 > 0 else "short",
        "size": abs(held.size_e8) / E8,
        "entry_price": held.entry_price_e8 / E8,
        "mark": mark_e8 / E8,
        "value_usd": notional_usd_e6(held.size_e8, mark_e8) / E6,
        "unrealised_usd": held.unrealised_usd_e6(mark_e8) / E6,
        "leverage": held.leverage,
        "opened_at": iso_text(trade.entry_tick_at) if trade else None,
        "run_id": trade.entry_run_id if trade else None,
    }


def _portfolio_view(accounts: list[AccountView], moment: int) -> HomePortfolioView:
    held = [position for account in accounts for position in account["positions"]]
    return {
        "as_of": iso_text(moment),
        "equity_usd": sum(each["equity_usd"] for each in accounts),
        "cash_usd": sum(each["cash_usd"] for each in accounts),
        "exposure_usd": sum(each["exposure_usd"] for each in accounts),
        "unrealised_usd": sum(each["unrealised_usd"] for each in held),
        "day_usd": sum(each["day_usd"] for each in accounts),
        "accounts": accounts,
    }


def _equity_line(
    book: Book,
    deployment: Deployment,
    span: tuple[int | None, int],
    cache: EquityCache,
    *,
    tape: Tape,
    book_db: Database,
) -> list[EquityPoint]:
    """One account's equity from the beginning of a range to its end, both included, whenever the book knows it."""
    name = deployment.id
    since, until = span
    last = book.seq_as_of(name, until)
    if not last:
        return []
    between = BookRange(book_db, book, deployment=name, after=0, until=last)
    if since is not None:
        after = book.seq_as_of(name, since)
        between = BookRange(book_db, book, deployment=name, after=after, until=last).from_moment(since)
    points = cache.points(name, between)
    # A line never goes back in time, so a range is a slice of it.
    del points[bisect_right(points, until, key=_AT) :]
    if since is not None and between.after:
        start = equity_at(book, tape, deployment, since, seq=between.after, watermark=NO_WATERMARK)
        points = [EquityPoint(since, start), *points[bisect_right(points, since, key=_AT) :]]
    marks_end = equity_at(book, tape, deployment, until, seq=last, watermark=NO_WATERMARK)
    return [*points, EquityPoint(until, marks_end)]


def _sum_of_lines(lines: Sequence[Sequence[EquityPoint]]) -> list[EquityPoint]:
    """The sum of several lines, at every moment at which one of them moves."""
    if len(lines) <= 1:
        return [point for line in lines for point in line]
    # What an account began with is no gain of the others.
    now = [line[0].usd_e6 for line in lines]
    moves = sorted((point.at, place, point.usd_e6) for place, line in enumerate(lines) for point in line)
    found: dict[int, EquityPoint] = {}
    for at, place, usd in moves:
        now[place] = usd
        found[at] = EquityPoint(at, sum(now))
    return list(found.values())


def _equity_view(
    points: Sequence[EquityPoint], *, agent: str | None, span: tuple[int | None, int], most: int
) -> EquityView:
    since, until = span
    fall = deepest_drawdown(point.usd_e6 for point in points)
    start, end = (points[0].usd_e6, points[-1].usd_e6) if points else (0, 0)
    begin = since if since is not None else points[0].at if points else until
    rows, peak = list[EquityPointView](), 0
    for point in thin_points(points, most):
        peak = max(peak, point.usd_e6)
        below = (peak - point.usd_e6) / peak if peak > 0 else 0.0
        rows.append({"at": iso_text(point.at), "equity_usd": point.usd_e6 / E6, "drawdown_share": round(below, 6)})
    return {
        "agent": agent,
        "since": iso_text(begin),
        "until": iso_text(until),
        "start_usd": start / E6,
        "end_usd": end / E6,
        "change_usd": (end - start) / E6,
        "change_share": round((end - start) / start, 6) if start > 0 else 0.0,
        "drawdown_usd": fall.usd_e6 / E6,
        "drawdown_share": fall.ppm / 1_000_000,
        "points": rows,
    }
