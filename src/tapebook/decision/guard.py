"""The guard: the rules that stop money, asked of a reply (`judge_actions`) and of an order at send (`gate_order`).

Each rule is one pure function that says why a proposal is refused, or None; the first that objects refuses:

    R1_KILL_SWITCH          the desk is halted, or the agent is not enabled
    R2_SYMBOL_NOT_ENABLED   the symbol is not the one this run is about, or not on the watchlist
    R3_POSITION_CAP         the position could come to be worth more than its cap, working orders included
    R4_LEVERAGE             more leverage than allowed
    R5_DAILY_LOSS           the day has lost as much as it may: nothing grows any more
    R6_RATE_LIMIT           too many orders within the hour
    R7_STALE_DATA           the newest price is too old to trade on
    R8_MIN_NOTIONAL         the order is smaller than the exchange takes
    R9_PRICE_DEVIATION      the limit price, or the price since the decision, is too far away
    R10_COOLDOWN            a trade of the symbol lost money a short while ago
    R11_MODEL_SPEND         the day's money for models is spent (asked before the model is)
    R12_NO_POSITION         there is nothing on that side to close or adjust
    R13_ONE_ORDER           another order does this already
    R14_ACCOUNT_CAP         all positions and orders together could exceed the account's cap
    R15_UNKNOWN_CITATION    it cites what the packet does not have
    R16_MARGIN              there is not enough margin at the leverage asked for
    R17_EXPIRED             the order has waited too long to be sent
    R18_DELISTED            the exchange does not list the symbol any more

A position may always be made smaller: caps, losses, cooldowns and margin only look at what grows. Orders that work
may be filled in any order, or not at all, so a cap is kept only if the worst case keeps it (`Limits.worst_usd_e6`):
every figure of `Limits` is the most that can come of something. Every action is weighed against what is held now,
so one of a reply may trade: a second could take the position past a cap that each of them keeps.

Beside the rules, `unexplained_numbers` lists the numbers of a reason that neither the packet, nor the action itself,
nor simple arithmetic on them explains. A number counts as explained when it is one of the packet's within the rounding
it is written with, or the difference, the share or the change in percent (or basis points) between two of them. Small
whole numbers are counts ("3 of 5 bars") and pass. With hundreds of numbers to combine, a made-up one can pass by
chance; a flagged one is made up, or computed in a way that a reader should see. It refuses nothing.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache

import msgspec

from tapebook.domain.agent import RiskCaps
from tapebook.domain.order import Order
from tapebook.domain.packet import Packet
from tapebook.domain.position import Portfolio, Position, only_reduces, signed_size_e8
from tapebook.domain.run import Action, ActionKind, Activity, Verdict
from tapebook.domain.units import E6, E8, decimal_text, notional_usd_e6, short_price


class Move(msgspec.Struct, frozen=True):
    """An order as the rules see it, whether it is proposed, about to leave or working already."""

    symbol: str
    buys: bool
    usd_e6: int
    mark_e8: int
    limit_price_e8: int | None
    leverage: int
    reduces: bool

    @property
    def order_usd_e6(self) -> int:
        """What the exchange counts: the value at the order's own price."""
        return self.usd_e6 if self.limit_price_e8 is None else self.usd_e6 * self.limit_price_e8 // self.mark_e8


def move_of_order(order: Order, mark_e8: int | None) -> Move:
    """An order of the book at the newest price; one whose symbol has no price any more counts at its limit."""
    price = mark_e8 or order.limit_price_e8 or 1
    worth = notional_usd_e6(order.size_e8, price)
    return Move(
        order.symbol, order.side == "buy", worth, price, order.limit_price_e8, order.leverage, order.reduce_only
    )


class Limits(msgspec.Struct, frozen=True):
    """What is known at `at`, as of `seq` of the book, about the symbol of a run and the account around it.

    `marks` has every symbol that is held; `halted` says why nothing may leave; `citations` are those of the packet.
    `activity_unread` says why nobody knows what was done lately, if so: then nothing may grow.
    `settled_at_e8` is what a symbol that was delisted was settled at.
    """

    caps: RiskCaps
    symbol: str
    watchlist: tuple[str, ...]
    at: int
    seq: int
    portfolio: Portfolio
    marks: dict[str, int]
    data_age_ms: int | None
    working: tuple[Move, ...] = ()
    halted: str | None = None
    activity: Activity = Activity()
    citations: frozenset[str] = frozenset()
    activity_unread: str | None = None
    settled_at_e8: int | None = None

    @property
    def position(self) -> Position | None:
        """The position in the run's symbol."""
        return self.portfolio.positions.get(self.symbol)

    @property
    def mark_e8(self) -> int | None:
        """The newest price of the run's symbol."""
        return self.marks.get(self.symbol)

    @property
    def equity_usd_e6(self) -> int:
        """What the account is worth now."""
        return self.portfolio.equity_usd_e6(self.marks)

    def held_usd_e6(self, symbol: str) -> int:
        """The signed value of a position at its mark."""
        held = self.portfolio.positions.get(symbol)
        return notional_usd_e6(held.size_e8, self.marks[symbol]) if held else 0

    def worst_usd_e6(self, symbol: str, *, buys: bool, adding: Move | None = None) -> int:
        """The most of a symbol that can be held on one side once what works there, and `adding`, is filled.

        A position on the other side is credited to a lone market order, which turns it. Beside another order, or
        for a limit order that may wait, it can be closed first, and then all of the order opens. A limit above the
        mark is filled when the price is up there, and then everything is worth that much.
        """
        moves = [move for move in self._moves(adding) if move.symbol == symbol and move.buys == buys]
        held = self.held_usd_e6(symbol) if buys else -self.held_usd_e6(symbol)
        if held < 0 and [move.limit_price_e8 for move in moves] != [None]:
            held = 0
        grows = [move for move in moves if not move.reduces]
        worth = max(0, held + sum(move.usd_e6 for move in grows))
        return max(
            (-(-worth * max(move.mark_e8, move.limit_price_e8 or 0) // move.mark_e8) for move in grows), default=worth
        )

    def gross_usd_e6(self, adding: Move) -> int:
        """The most that all symbols together can be worth, whatever their side."""
        return sum(self._worst_side_usd_e6(symbol, adding) for symbol in self._symbols(adding))

    def margin_usd_e6(self, adding: Move) -> int:
        """The initial margin of that: each symbol at the lowest leverage that anything in it has."""
        return sum(
            -(-self._worst_side_usd_e6(symbol, adding) // self._lowest_leverage(symbol, adding))
            for symbol in self._symbols(adding)
        )

    def _moves(self, adding: Move | None) -> tuple[Move, ...]:
        return self.working if adding is None else (*self.working, adding)

    def _symbols(self, adding: Move) -> set[str]:
        return {*self.portfolio.positions, *(move.symbol for move in self._moves(adding))}

    def _worst_side_usd_e6(self, symbol: str, adding: Move) -> int:
        return max(self.worst_usd_e6(symbol, buys=buys, adding=adding) for buys in (True, False))

    def _lowest_leverage(self, symbol: str, adding: Move) -> int:
        held = self.portfolio.positions.get(symbol)
        asked = [move.leverage for move in self._moves(adding) if move.symbol == symbol and not move.reduces]
        return max(1, min([*asked, held.leverage] if held else asked, default=1))


_PPM = 1_000_000


class ProposedOrder(msgspec.Struct, frozen=True):
    """What is asked: an action of a reply, or an order about to leave; `move` is the order it comes to."""

    action: ActionKind
    symbol: str
    move: Move | None
    side: str | None = None
    cites: tuple[str, ...] = ()

    @property
    def growing_move(self) -> Move | None:
        """The order, if it can make a position larger or turn it."""
        return None if self.move is None or self.move.reduces else self.move


Rule = Callable[[ProposedOrder, Limits], str | None]


def kill_switch_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """While the desk is halted nothing leaves, not even a close: `flatten` is for that."""
    return None if asked.action == "hold" else limits.halted


def symbol_not_enabled_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Only the symbol this run is about, and only if it is on the watchlist."""
    if asked.symbol != limits.symbol or asked.symbol not in limits.watchlist:
        return f"{asked.symbol or 'an empty symbol'} is not what this run may trade"
    return None


def delisted_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Nothing can be traded that is not listed any more; what was held was closed at the settlement price."""
    if asked.action == "hold" or limits.settled_at_e8 is None:
        return None
    price = short_price(limits.settled_at_e8)
    return f"{asked.symbol} is not listed any more; positions in it were settled at {price}"


def unknown_citation_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Only what the packet offered can be cited."""
    for cite in asked.cites:
        if cite not in limits.citations:
            return f"{cite or 'an empty citation'} is not in the packet"
    return None


def stale_data_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """No order without a price, or on an old one."""
    if asked.action == "hold":
        return None
    if limits.data_age_ms is None or not limits.mark_e8:
        return "no price is known"
    if limits.data_age_ms > limits.caps.max_data_age_ms:
        return f"the newest price is {limits.data_age_ms // 1000} s old"
    return None


def no_position_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Closing and adjusting need a position; adjusting needs it on the side that is named."""
    size = limits.position.size_e8 if limits.position else 0
    held = "long" if size > 0 else "short" if size < 0 else None
    if asked.action == "close" and held is None:
        return "there is no position to close"
    if asked.action == "adjust" and held != asked.side:
        return f"there is no {asked.side} position to adjust"
    return None


def leverage_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Never more leverage than the cap; that of a close is idle."""
    if asked.action in ("open", "adjust") and asked.move and asked.move.leverage > limits.caps.max_leverage:
        return f"leverage {asked.move.leverage} exceeds {limits.caps.max_leverage}"
    return None


def min_notional_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """The exchange refuses orders that are too small, but takes any that closes."""
    if asked.action in ("open", "adjust") and asked.move:
        worth, least = asked.move.order_usd_e6, limits.caps.min_notional_usd_e6
        return f"an order of {_usd_text(worth)} is below the minimum of {_usd_text(least)}" if worth < least else None
    return None


def price_deviation_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """A limit far from the market is a mistake on either side: it never fills, or at a price nobody asks for."""
    if asked.move is None or asked.move.limit_price_e8 is None:
        return None
    away = _distance_ppm(asked.move.limit_price_e8, asked.move.mark_e8)
    return f"the limit is {_percent_text(away)} from the market" if away > limits.caps.max_price_deviation_ppm else None


def position_cap_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """What could be held afterwards on the side of the order must fit the cap."""
    if asked.growing_move is None:
        return None
    after = limits.worst_usd_e6(asked.symbol, buys=asked.growing_move.buys, adding=asked.growing_move)
    most = limits.caps.max_position_usd_e6
    return f"position of {_usd_text(after)} exceeds {_usd_text(most)}" if after > most else None


def account_cap_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """All symbols together, whatever their side, must fit the account's cap."""
    if asked.growing_move is None:
        return None
    after, most = limits.gross_usd_e6(asked.growing_move), limits.caps.max_account_usd_e6
    return f"{_usd_text(after)} in all symbols exceeds {_usd_text(most)}" if after > most else None


def margin_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """The account must be worth the initial margin of all it could hold."""
    if asked.growing_move is None:
        return None
    needed, there = limits.margin_usd_e6(asked.growing_move), limits.equity_usd_e6
    return (
        f"margin of {_usd_text(needed)} is needed and the account is worth {_usd_text(there)}"
        if needed > there
        else None
    )


def daily_loss_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Once the day has lost more than it may, realised or not, nothing grows; nor while nobody knows what it lost."""
    if asked.growing_move and limits.activity_unread:
        return f"what was done today cannot be read ({limits.activity_unread})"
    # Equity and not realised results: a loss that is held open is a loss of the day too.
    lost, most = limits.activity.day_start_equity_usd_e6 - limits.equity_usd_e6, limits.caps.max_daily_loss_usd_e6
    return f"{_usd_text(lost)} lost today exceeds {_usd_text(most)}" if asked.growing_move and lost > most else None


def cooldown_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """After a losing close the symbol rests."""
    lost_at = limits.activity.last_loss_at.get(asked.symbol)
    if asked.growing_move is None or lost_at is None:
        return None
    # From the loss itself, so that a second decision in the meantime does not begin the rest anew.
    left = lost_at + limits.caps.cooldown_ms - limits.at
    return f"{asked.symbol} rests for {-(-left // 1000)} s more after a loss" if left > 0 else None


def rate_limit_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """Only so many orders within an hour; a close is not counted out."""
    most, sent = limits.caps.max_orders_per_hour, limits.activity.orders_last_hour
    if asked.action in ("open", "adjust") and sent >= most:
        return f"{sent} orders within the hour; {most} are allowed"
    return None


def one_order_rule(asked: ProposedOrder, limits: Limits) -> str | None:
    """A position is not closed beside an order under way that turns it."""
    # Both together would sell it twice.
    move = asked.move
    if move is None or not move.reduces:
        return None
    same = [each for each in limits.working if (each.symbol, each.buys) == (move.symbol, move.buys)]
    turns = any(each.limit_price_e8 is None and not each.reduces for each in same)
    return "an order that turns the position is under way" if turns else None


def price_moved_objection(decided_mark_e8: int | None, limits: Limits) -> str | None:
    """Why an order is not sent into a market that has left the price of its decision."""
    if not decided_mark_e8 or not limits.mark_e8:
        return "the price of the decision is not known"
    away = _distance_ppm(limits.mark_e8, decided_mark_e8)
    if away > limits.caps.max_price_deviation_ppm:
        return f"the price moved by {_percent_text(away)} since the decision"
    return None


def expired_objection(age_ms: int, most_ms: int) -> str | None:
    """Why an order is not sent any more: by now the agent has decided anew, or should have."""
    return f"the order was intended {age_ms // 1000} s ago" if age_ms > most_ms else None


def _distance_ppm(price_e8: int, of_e8: int) -> int:
    """How far one price is from another, in millionths of the other, rounded up."""
    return -(-abs(price_e8 - of_e8) * _PPM // of_e8)


def _percent_text(ppm: int) -> str:
    return f"{decimal_text(ppm, 10_000, 2)} %"


def _usd_text(amount_e6: int) -> str:
    return f"${decimal_text(amount_e6, E6, 2)}"


RULES: dict[str, Rule] = {
    "R1_KILL_SWITCH": kill_switch_rule,
    "R2_SYMBOL_NOT_ENABLED": symbol_not_enabled_rule,
    "R18_DELISTED": delisted_rule,
    "R15_UNKNOWN_CITATION": unknown_citation_rule,
    "R7_STALE_DATA": stale_data_rule,
    "R12_NO_POSITION": no_position_rule,
    "R4_LEVERAGE": leverage_rule,
    "R8_MIN_NOTIONAL": min_notional_rule,
    "R9_PRICE_DEVIATION": price_deviation_rule,
    "R3_POSITION_CAP": position_cap_rule,
    "R14_ACCOUNT_CAP": account_cap_rule,
    "R16_MARGIN": margin_rule,
    "R5_DAILY_LOSS": daily_loss_rule,
    "R10_COOLDOWN": cooldown_rule,
    "R6_RATE_LIMIT": rate_limit_rule,
    "R13_ONE_ORDER": one_order_rule,
}
"""The rules of the guard, in the order they are asked: the first that objects is the one that is stored."""


# What may have changed between a decision and the moment its order leaves.
_SEND_RULES = (
    "R1_KILL_SWITCH",
    "R2_SYMBOL_NOT_ENABLED",
    "R18_DELISTED",
    "R7_STALE_DATA",
    "R4_LEVERAGE",
    "R9_PRICE_DEVIATION",
    "R3_POSITION_CAP",
    "R14_ACCOUNT_CAP",
    "R16_MARGIN",
)


# What can be said against doing nothing; every other rule looks at the order, or at an account that is to change.
_HOLD_RULES = ("R2_SYMBOL_NOT_ENABLED", "R15_UNKNOWN_CITATION")
_ALLOWED = Verdict(True)


def judge_actions(actions: Sequence[Action], limits: Limits) -> tuple[Verdict, ...]:
    """A verdict for each action, in their order: one of them may trade."""
    verdicts: list[Verdict] = []
    trades = False
    for action in actions:
        holds = action.action == "hold"
        move = None if holds else _move_of_action(action, limits)
        asked = ProposedOrder(action.action, action.symbol, move, action.side, action.cites)
        verdict = _first_objection(_HOLD_RULES if holds else RULES, asked, limits)
        if verdict.allowed and not holds:
            verdict = Verdict(False, "R13_ONE_ORDER", "an action before it trades already") if trades else verdict
            trades = True
        verdicts.append(verdict)
    return tuple(verdicts)


def gate_order(order: Order, limits: Limits, *, decided_mark_e8: int | None, most_ms: int) -> Verdict:
    """Whether an order may still leave, by limits that were read now and do not count the order itself.

    What a person wants flat passes; what only reduces may follow the price wherever it went.
    """
    if not order.run_id:
        return _ALLOWED
    late = expired_objection(limits.at - order.intended_at, most_ms)
    if late:
        return Verdict(False, "R17_EXPIRED", late)
    move = move_of_order(order, limits.mark_e8)
    verdict = _first_objection(
        _SEND_RULES, ProposedOrder("close" if order.reduce_only else "open", order.symbol, move), limits
    )
    moved = None if order.reduce_only or not verdict.allowed else price_moved_objection(decided_mark_e8, limits)
    return Verdict(False, "R9_PRICE_DEVIATION", moved) if moved else verdict


def _first_objection(codes: Iterable[str], proposal: ProposedOrder, limits: Limits) -> Verdict:
    for code in codes:
        detail = RULES[code](proposal, limits)
        if detail is not None:
            return Verdict(False, code, detail)
    return _ALLOWED


def _move_of_action(action: Action, limits: Limits) -> Move | None:
    """The order an action comes to, in the dollars that were asked for: its size is rounded down from them."""
    mark, held = limits.mark_e8, limits.position
    if action.symbol != limits.symbol or not mark:
        return None
    size = signed_size_e8(action, held, mark)
    have = limits.held_usd_e6(action.symbol)
    wanted = 0 if action.action == "close" else action.notional_usd_e6 * (1 if action.side == "long" else -1)
    adds = action.action == "open" and (held is None or (held.size_e8 > 0) == (wanted > 0))
    usd = wanted if adds else wanted - have
    buys = size > 0 if size else usd > 0
    reduces = only_reduces(size, held)
    return Move(action.symbol, buys, abs(usd), mark, action.limit_price_e8, action.leverage, reduces)


# Not inside a word or a time (EMA20, 5m, 12:05), but with a unit that scales it.
_NUMBER = re.compile(r"(?<![\w.:])[-+$]{0,2}(\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?(%|bps?\b|[kKMB]\b))?(?![\w:]|\.\d)")
_DIGIT = re.compile(r"\d")
_SCALES = {"k": 3, "K": 3, "M": 6, "B": 9}
_RELATIVE = {"%": 100, "bp": 10_000, "bps": 10_000}
_SPILLED = re.compile(r"\n(?:%|bps?\b|[kKMB]\b)")
# So many digits Decimal keeps by default: shorter numbers give the same float either way.
_EXACT_DIGITS = 28
# "3 of 5 bars", "the last 12 trades": counts are not claims about prices.
_LARGEST_COUNT = 20
# A reason has 240 characters; each number is compared with every pair of the packet's.
_MAX_NUMBERS = 12


class ClaimedFigure(msgspec.Struct, frozen=True):
    """A number as it is written: its size, half a unit of its last digit, and what a relative one is out of."""

    text: str
    value: float
    slack: float
    out_of: int | None


def unexplained_numbers(action: Action, packet: Callable[[], Packet]) -> tuple[str, ...]:
    """Those numbers of an action's reason that a reader cannot find or work out, as they are written.

    The packet is asked for only where there is one to explain.
    """
    claimed: list[ClaimedFigure] = []
    # Every number without its sign: "down 3" and "-3" are one.
    for match in _NUMBER.finditer(action.reason) if _DIGIT.search(action.reason) else ():
        unit = match[2] or ""
        exact = Decimal(match[1].replace(",", "")).scaleb(_SCALES.get(unit, 0))
        exponent = exact.as_tuple().exponent
        half = 0.5 * 10.0 ** (exponent if isinstance(exponent, int) else 0)
        figure = ClaimedFigure(match[0].strip(), float(exact), half, _RELATIVE.get(unit))
        is_count = figure.out_of is None and figure.value <= _LARGEST_COUNT and figure.value.is_integer()
        if not is_count and len(claimed) < _MAX_NUMBERS:
            claimed.append(figure)
    if not claimed:
        return ()
    seen, limit, confidence = packet(), action.limit_price_e8 or 0, action.confidence_e4
    # What the action itself says: its size, leverage, limit and confidence.
    known = {action.notional_usd_e6 / E6, float(action.leverage), limit / E8, confidence / 1e4, confidence / 100}
    # Line by line, since most lines of a packet were in the one before.
    # A unit at the beginning of a line belongs to the number before it.
    text = f"{seen.system}\n{seen.text}"
    lines = [text] if _SPILLED.search(text) else text.split("\n")
    # Sorted once: every comparison is a bisection then.
    ordered = sorted(known.union(*map(numbers_in, lines)))
    unexplained = []
    for figure in claimed:
        if not _is_explained(figure, ordered):
            unexplained.append(figure.text)
    return tuple(unexplained)


@lru_cache(maxsize=20_000)
def numbers_in(text: str) -> tuple[float, ...]:
    """Every number of a text without its sign, as large as its unit makes it."""
    values = []
    for number, unit in _NUMBER.findall(text):
        digits, scale = number.replace(",", ""), _SCALES.get(unit, 0)
        # A Decimal is used only where a float would round it twice.
        is_short = len(digits) <= _EXACT_DIGITS
        values.append(float(f"{digits}e{scale}") if is_short else float(Decimal(digits).scaleb(scale)))
    return tuple(values)


def _is_explained(figure: ClaimedFigure, known: Sequence[float]) -> bool:
    """Whether a number is near a known one, or what simple arithmetic makes of two of them."""
    value, slack, count = figure.value, figure.slack, len(known)
    # A base times a factor plus a shift is looked for; how far off it may be is so much, and so much for each base.
    forms: list[tuple[Sequence[float], float, float, float, float]] = [((0.0, *known), 1.0, value, slack, 0.0)]
    if figure.out_of is not None:
        part, width, others = value / figure.out_of, slack / figure.out_of, list(filter(None, known))
        # Up by, down by, and a share of: each as the other number it would need.
        for factor in (part, 1 + part, 1 - part):
            forms.append((others, factor, 0.0, 0.0, width))
    for bases, factor, shift, off, width in forms:
        for base in bases:
            number = base * factor + shift
            # A little more, for what floats lose.
            most = off + base * width + 1e-9 * abs(number)
            at = bisect_left(known, number - most)
            if at < count and known[at] <= number + most:
                return True
    return False
