"""Paper trading told a second time, slowly and from the rules alone: no line of the broker's is used here.

Time is a list of moments, and at each of them everything that can happen is looked at anew.
Numbers are exact fractions; where money is rounded it is rounded half to even, where a price is
rounded it is rounded to the worse side. Depth is integrated over prices instead of amounts,
maintenance is a rate with a deduction instead of a sum over tiers, a liquidation price is found by
looking at every step of the way.

Events are plain tuples: ("fill", symbol, at, size, price, fee, maker, client id, liquidation),
("funding", symbol, at, amount, rate), ("end", client id, at, status), ("insurance", symbol, at, amount).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tapebook.broker import BrokerAccount, PaperTerms
from tapebook.domain.order import Order
from tests.broker.market import Market

Event = tuple[Any, ...]

MINUTE, HOUR = 60_000, 3_600_000
WAY = 1_000_000
# (from USD, largest leverage) of the coins tests use.
TIERS = {"BTC": [(0, 40), (150_000_000, 20)], "ARB": [(0, 10), (3_000_000, 5)]}


@dataclass
class Lot:
    """A position: size and cost as integers, the margin it was given, and its two moments."""

    size: int
    cost: int
    leverage: int
    margin: int
    moved: int
    funded: int


@dataclass
class Waiting:
    """An order, and when it met its first observation and began to rest."""

    order: Order
    rests_since: int | None = None


@dataclass
class SlowDesk:
    """An account in the market, from beginning to end in one go."""

    market: Market
    terms: PaperTerms
    isolated: bool
    cash: int
    checked: int
    lots: dict[str, Lot] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    until: int = 0

    @classmethod
    def of(cls, account: BrokerAccount, market: Market, terms: PaperTerms) -> "SlowDesk":
        """The desk an account starts from."""
        desk = cls(market, terms, account.margin == "isolated", account.cash_usd_e6, account.walked_until)
        for each in account.exposures:
            at = each.position
            funded = max(each.funded_until, account.walked_until - HOUR)
            desk.lots[at.symbol] = Lot(at.size_e8, at.cost_usd_e6, at.leverage, at.margin_usd_e6, at.moved_at, funded)
        return desk

    def run(self, orders: list[Order], until: int) -> None:
        """Lives through every moment at which anything can happen."""
        self.until = until
        self.waiting = {order.client_id: Waiting(order) for order in orders}
        for moment in self.moments(orders, until):
            due = sorted(self.due(moment), key=self.turn)
            while True:
                if self.judge(moment) or self.fund(moment):
                    continue
                if not due:
                    break
                client, how, mid = due.pop(0)
                if client in self.waiting:
                    self.execute(client, how, mid, moment)

    def moments(self, orders: list[Order], until: int) -> list[int]:
        """Observations, deadlines, and every full minute."""
        found = {each.bucket_ts for each in self.market.mids} | {self.deadline(order) for order in orders}
        found |= {self.arrival(order) for order in orders}
        starts = [*found, *(lot.moved for lot in self.lots.values()), *(order.intended_at for order in orders)]
        first = min([until, *starts]) // MINUTE * MINUTE
        found |= set(range(first, until + 1, MINUTE))
        return sorted(moment for moment in found if moment <= until)

    # Orders

    def arrival(self, order: Order) -> int:
        return order.intended_at + self.terms.latency_ms

    def deadline(self, order: Order) -> int:
        if order.type == "limit":
            return self.arrival(order) + self.terms.limit_order_ms
        return self.arrival(order) + max(5 * MINUTE, self.length(order.symbol) + 2 * MINUTE)

    def turn(self, found: tuple[str, str, int]) -> tuple[int, str, str]:
        order = self.waiting[found[0]].order
        return order.intended_at, order.symbol, order.client_id

    def due(self, moment: int) -> list[tuple[str, str, int]]:
        """Orders whose waiting ends at this very moment, how, and at which price of the market."""
        found = []
        for client, waiting in self.waiting.items():
            order = waiting.order
            if self.arrival(order) <= moment <= self.deadline(order):
                met = self.met(waiting, moment)
                if met:
                    found.append((client, *met))
                    continue
            if moment == self.deadline(order):
                found.append((client, "given up", 0))
        return found

    def met(self, waiting: Waiting, moment: int) -> tuple[str, int] | None:
        """What an order meets at a moment: an observation, or the end of a long bar that went beyond its limit."""
        seen = self.observed(waiting.order.symbol, moment)
        if moment == self.arrival(waiting.order):
            seen = self.of_its_bar(waiting.order) or seen
        how = self.meets(waiting, seen, moment) if seen is not None else ""
        if how and seen is not None:
            return how, seen
        limit, rested = waiting.order.limit_price_e8, waiting.rests_since
        for bar in self.market.bars:
            ends_now = bar.symbol == waiting.order.symbol and bar.granularity_sec > 60 and bar.end == moment
            if ends_now and limit is not None and rested is not None and rested <= bar.bucket_ts:
                through = bar.low_e8 < limit if waiting.order.side == "buy" else bar.high_e8 > limit
                if through:
                    return "maker", bar.close_e8
        return None

    def of_its_bar(self, order: Order) -> int | None:
        """The price a fill rule gives an order, of the bar it arrives in, where that bar is all there is."""
        start = self.arrival(order) // self.length(order.symbol) * self.length(order.symbol)
        known = self.bar(order.symbol, start) if self.alone(order.symbol, start) else None
        late = order.intended_at > start + 2 * MINUTE
        if start + self.length(order.symbol) > min(self.until, self.deadline(order)):
            # Nobody knows the bar in time.
            return None
        if known is None or self.terms.fill == "bar_close" or (self.terms.fill == "next_open" and late):
            return None
        first, high, low, _ = known
        return {"next_open": first, "worst": high if order.side == "buy" else low}[self.terms.fill]

    def alone(self, symbol: str, start: int) -> bool:
        """Whether there is no midpoint in the time of a bar."""
        end = start + self.length(symbol)
        return not any(mid.symbol == symbol and start <= mid.bucket_ts < end for mid in self.market.mids)

    def meets(self, waiting: Waiting, mid: int, moment: int) -> str:
        order, limit = waiting.order, waiting.order.limit_price_e8
        sign = 1 if order.side == "buy" else -1
        if limit is None:
            return "taker"
        if waiting.rests_since is None:
            waiting.rests_since = moment
            best = self.worse(mid, Fraction(self.spread(order.symbol, moment), 2), sign)
            return "taker" if sign * (limit - best) >= 0 else ""
        return "maker" if sign * (limit - mid) > 0 else ""

    def execute(self, client: str, how: str, mid: int, moment: int) -> None:
        order = self.waiting[client].order
        wanted = order.size_e8 if order.side == "buy" else -order.size_e8
        have = self.lots[order.symbol].size if order.symbol in self.lots else 0
        if order.reduce_only:
            wanted = max(-have, min(0, wanted)) if have > 0 else min(-have, max(0, wanted))
        if how == "given up":
            return self.end(client, moment, "cancelled")
        if wanted == 0:
            return self.end(client, moment, "rejected")
        price = self.price(order, wanted, mid, how, moment)
        fee = self.fee(wanted, price, self.terms.maker_fee_ppm if how == "maker" else self.terms.taker_fee_ppm)
        if not self.affordable(order, wanted, price, fee, mid, moment):
            return self.end(client, moment, "rejected")
        self.take(order.symbol, wanted, price, fee, order.leverage, moment, (how == "maker", client, False))
        return self.end(client, moment, "filled")

    def end(self, client: str, moment: int, status: str) -> None:
        del self.waiting[client]
        self.events.append(("end", client, moment, status))

    # Prices

    def observed(self, symbol: str, moment: int) -> int | None:
        found = [mid.price_e8 for mid in self.market.mids if (mid.symbol, mid.bucket_ts) == (symbol, moment)]
        return found[0] if found else None

    def last(self, symbol: str, moment: int) -> int | None:
        known = [(mid.bucket_ts, mid.price_e8) for mid in self.market.mids if mid.symbol == symbol]
        before = [each for each in known if each[0] <= moment]
        return max(before)[1] if before else None

    def book(self, symbol: str, moment: int) -> Any:
        found = [(at, n) for n, (name, at, _) in enumerate(self.market.books) if name == symbol]
        lately = [each for each in found if 0 <= moment - each[0] <= HOUR]
        return self.market.books[max(lately)[1]][2] if lately else None

    def spread(self, symbol: str, moment: int) -> int:
        book = self.book(symbol, moment)
        return book.spread_ppm if book else self.terms.spread_ppm

    def worse(self, mid: int, ppm: Fraction, sign: int) -> int:
        distance = math.ceil(Fraction(mid) * ppm / 10**6)
        return mid + distance if sign > 0 else max(1, mid - distance)

    def price(self, order: Order, size: int, mid: int, how: str, moment: int) -> int:
        if how == "maker":
            assert order.limit_price_e8 is not None
            return order.limit_price_e8
        sign = 1 if size > 0 else -1
        market = self.worse(mid, self.average(order.symbol, size, mid, moment), sign)
        if order.limit_price_e8 is None:
            return market
        return sign * min(sign * order.limit_price_e8, sign * market)

    def average(self, symbol: str, size: int, mid: int, moment: int) -> Fraction:
        """How far away the average is, in ppm: the integral of the distance times the density of the book there."""
        half = Fraction(self.spread(symbol, moment), 2)
        farthest = max(half, Fraction(self.terms.max_impact_ppm))
        usd = Fraction(abs(size) * mid, 10**16)
        book = self.book(symbol, moment)
        if book is None:
            return min(farthest, half + Fraction(self.terms.impact_ppm_per_100k) * usd / 100_000)
        depths = [Fraction(each, 10**6) for each in (book.asks_usd_e6 if size > 0 else book.bids_usd_e6)]
        left, total = usd, Fraction(0)
        for near, far, offered in self.stretches(half, farthest, depths):
            part = min(left, offered)
            if part == 0:
                continue
            if near == far:
                total += part * far
            else:
                density = offered / (far - near)
                reach = near + part / density
                total += density * (reach**2 - near**2) / 2
            left -= part
        return (total + left * farthest) / usd

    def stretches(
        self, half: Fraction, farthest: Fraction, depths: list[Fraction]
    ) -> list[tuple[Fraction, Fraction, Fraction]]:
        edges = [half, *(max(half, Fraction(edge)) for edge in (1_000, 5_000, 10_000))]
        sums = [Fraction(0)]
        for depth in depths:
            sums.append(max(sums[-1], depth))
        found = [(edges[n], edges[n + 1], sums[n + 1] - sums[n]) for n in range(3)]
        near, far, offered = found[-1]
        if near < far < farthest:
            found.append((far, farthest, offered / (far - near) * (farthest - far)))
        return found

    def fee(self, size: int, price: int, ppm: int) -> int:
        return round(Fraction(self.worth(abs(size), price) * ppm, 10**6))

    def worth(self, size: int, price: int) -> int:
        return round(Fraction(size * price, 10**10))

    # Margin

    def affordable(self, order: Order, size: int, price: int, fee: int, mid: int, moment: int) -> bool:
        symbol, have = order.symbol, self.lots[order.symbol].size if order.symbol in self.lots else 0
        after = have + size
        if have * after >= 0 and abs(after) < abs(have):
            return True
        if order.leverage > self.largest_leverage(symbol, Fraction(abs(after) * mid, 10**16)):
            return False
        trial = SlowDesk(self.market, self.terms, self.isolated, self.cash, 0)
        trial.lots = {name: Lot(**vars(lot)) for name, lot in self.lots.items()}
        trial.move(symbol, size, price, fee, order.leverage, moment)
        if self.isolated:
            return trial.cash >= sum(lot.margin for lot in trial.lots.values())
        equity, needed = Fraction(trial.cash), Fraction(0)
        for name, lot in trial.lots.items():
            before = self.lots.get(name)
            mark = mid if name == symbol else self.last(name, moment)
            if mark is None:
                assert before is not None
                mark = self.entry(before)
            equity += Fraction(lot.size * mark, 10**10) - lot.cost
            needed += Fraction(abs(lot.size) * mark, 10**10 * lot.leverage)
        return equity >= needed

    def entry(self, lot: Lot) -> int:
        return round(Fraction(abs(lot.cost) * 10**10, abs(lot.size)))

    def tiers(self, symbol: str) -> list[tuple[int, int]]:
        return TIERS.get(symbol, [(0, self.terms.default_max_leverage)])

    def largest_leverage(self, symbol: str, usd: Fraction) -> int:
        return [most for begins, most in self.tiers(symbol) if usd >= begins][-1]

    def maintenance(self, symbol: str, usd: Fraction) -> Fraction:
        """A rate of the whole value, less what the lower tiers ask less for."""
        rate, deduction = Fraction(0), Fraction(0)
        for begins, most in self.tiers(symbol):
            if usd >= begins:
                steeper = Fraction(1, 2 * most)
                deduction += begins * (steeper - rate)
                rate = steeper
        return usd * rate - deduction

    # Bars and hours

    def length(self, symbol: str) -> int:
        lengths = {each.granularity_sec * 1_000 for each in self.market.bars if each.symbol == symbol}
        return max(lengths, default=MINUTE)

    def judge(self, moment: int) -> bool:
        """Judges the next stretch if it can be judged by now; whether it did."""
        if not self.lots:
            return False
        begins = [lot.moved // self.length(name) * self.length(name) for name, lot in self.lots.items()]
        self.checked = max(self.checked, min(begins))
        longest = max(self.length(name) for name in self.lots)
        start, end = self.checked, (self.checked // longest + 1) * longest
        slots = {name: self.slots(name, start, end) for name in self.lots}
        missing = [at for name in slots for at in slots[name] if self.bar(name, at) is None]
        if moment < (end + 2 * MINUTE if missing else end):
            return False
        self.checked = end
        paths = {name: self.path(name, slots[name], end) for name in self.lots}
        if not any(self.prices(name, at) for name in slots for at in slots[name]):
            return True
        groups = [[name] for name in sorted(self.lots)] if self.isolated else [sorted(self.lots)]
        for names in groups:
            prices = self.fallen(names, paths)
            if prices:
                self.liquidate(prices, moment)
        return True

    def slots(self, symbol: str, start: int, end: int) -> list[int]:
        """Where the bars begin that end within a stretch, and after the lot was last moved."""
        length, moved = self.length(symbol), self.lots[symbol].moved
        begins = range(start // length * length, end, length)
        return [at for at in begins if start < at + length <= end and moved < at + length]

    def bar(self, symbol: str, start: int) -> list[int] | None:
        for each in self.market.bars:
            if (each.symbol, each.bucket_ts) == (symbol, start):
                return [each.open_e8, each.high_e8, each.low_e8, each.close_e8]
        return None

    def prices(self, symbol: str, start: int) -> list[int] | None:
        known = self.bar(symbol, start)
        if known:
            return known
        within = sorted(
            (each.bucket_ts, each.price_e8)
            for each in self.market.mids
            if each.symbol == symbol and start <= each.bucket_ts < start + self.length(symbol)
        )
        prices = [price for _, price in within]
        return [prices[0], max(prices), min(prices), prices[-1]] if prices else None

    def path(self, symbol: str, slots: list[int], end: int) -> tuple[int, int]:
        """From where to where a price goes in a stretch, for the position held."""
        lot = self.lots[symbol]
        points: list[int] = []
        for at in slots:
            known = self.prices(symbol, at)
            if known is None:
                continue
            first, high, low, close = known
            of_bar = self.terms.fill != "bar_close" and self.bar(symbol, at) is not None and self.alone(symbol, at)
            if lot.moved > at and not points and not of_bar:
                points = [close]
            else:
                points += [first, low if lot.size > 0 else high]
        if not points:
            price = self.last(symbol, max(end, lot.moved))
            price = self.entry(lot) if price is None else price
            return price, price
        return points[0], min(points) if lot.size > 0 else max(points)

    def fallen(self, names: list[str], paths: dict[str, tuple[int, int]]) -> dict[str, int] | None:
        """The prices of the first step at which a group falls short, found by looking at steps in a row."""

        def prices(step: int) -> dict[str, int]:
            part = Fraction(step, WAY)
            return {name: math.floor(paths[name][0] + (paths[name][1] - paths[name][0]) * part) for name in names}

        def short(step: int) -> bool:
            at = prices(step)
            worth = Fraction(self.lots[names[0]].margin if self.isolated else self.cash, 10**6)
            needed = Fraction(0)
            for name in names:
                lot = self.lots[name]
                worth += Fraction(lot.size * at[name], 10**16) - Fraction(lot.cost, 10**6)
                needed += self.maintenance(name, Fraction(abs(lot.size) * at[name], 10**16))
            return worth < needed

        coarse = next((step for step in range(0, WAY + 1, 10_000) if short(step)), None)
        if coarse is None:
            return None
        for finer in (100, 1):
            coarse = next(step for step in range(max(0, coarse - 100 * finer), coarse + 1, finer) if short(step))
        return prices(coarse)

    def liquidate(self, prices: dict[str, int], moment: int) -> None:
        for name in sorted(prices):
            size = -self.lots[name].size
            fee = self.fee(size, prices[name], self.terms.taker_fee_ppm + self.terms.liquidation_fee_ppm)
            self.take(name, size, prices[name], fee, 1, moment, (False, None, True))
        for client in sorted(self.waiting):
            order = self.waiting[client].order
            if order.intended_at < moment and (not self.isolated or order.symbol in prices):
                self.end(client, moment, "cancelled")

    def fund(self, moment: int) -> bool:
        """Pays the next funding that is due at this full hour; whether it did."""
        if moment % HOUR:
            return False
        for name in sorted(self.lots):
            lot = self.lots[name]
            if lot.funded >= moment:
                continue
            lot.funded = moment
            if lot.moved >= moment:
                return True
            rate, mark = self.market.rate(name, moment), self.last(name, moment)
            if rate is not None and mark is not None:
                amount = -round(Fraction(self.worth(lot.size, mark) * rate, 10**12))
                self.cash += amount
                lot.margin += amount
                self.events.append(("funding", name, moment, amount, rate))
            return True
        return False

    # The account

    def take(self, symbol: str, size: int, price: int, fee: int, leverage: int, moment: int, kind: Event) -> None:
        """Moves the account, tells of it, and makes up for what is less than nothing."""
        margin, cash = self.lots[symbol].margin if symbol in self.lots else 0, self.cash
        self.move(symbol, size, price, fee, leverage, moment)
        self.events.append(("fill", symbol, moment, size, price, fee, *kind))
        if self.isolated and symbol not in self.lots:
            self.make_up(symbol, moment, margin + self.cash - cash)
        if not self.lots:
            self.make_up("", moment, self.cash)

    def make_up(self, symbol: str, moment: int, left: int) -> None:
        if left < 0:
            self.cash -= left
            self.events.append(("insurance", symbol, moment, -left))

    def move(self, symbol: str, size: int, price: int, fee: int, leverage: int, moment: int) -> None:
        """A fill: first what it closes, then what it opens."""
        self.cash -= fee
        lot = self.lots.get(symbol)
        closing = 0
        if lot and lot.size * size < 0:
            closing = size if abs(size) < abs(lot.size) else -lot.size
            part = Fraction(abs(closing), abs(lot.size))
            cost = lot.cost if part == 1 else round(lot.cost * part)
            self.cash += self.worth(-closing, price) - cost
            lot.size, lot.cost, lot.moved = lot.size + closing, lot.cost - cost, moment
            lot.margin -= round(lot.margin * part)
            if lot.size == 0:
                del self.lots[symbol]
        opening = size - closing
        if opening:
            lot = self.lots.setdefault(symbol, Lot(0, 0, leverage, 0, moment, moment))
            paid = self.worth(opening, price)
            lot.size, lot.cost, lot.leverage, lot.moved = lot.size + opening, lot.cost + paid, leverage, moment
            lot.margin += math.ceil(Fraction(abs(paid), leverage))
