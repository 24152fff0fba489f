"""A freqtrade strategy that remembers: candles, decisions and fills go to a tapebook home, and the guard advises.

    cp examples/freqtrade_strategy.py user_data/strategies/
    freqtrade trade --strategy TapebookStrategy        # config.json: "tapebook_home": "/path/to/home"

It uses what freqtrade documents for strategies (interface version 3): `bot_start`, the three `populate_` methods,
`confirm_trade_entry`, `confirm_trade_exit` and `order_filled`. freqtrade itself is not needed to read or test it.
"""

from datetime import datetime
from typing import Any, ClassVar

import tapebook

try:
    from freqtrade.strategy import IStrategy
except ImportError:  # read or tested without freqtrade
    IStrategy = object

MINUTES = {"1m": 1, "5m": 5, "15m": 15, "1h": 60}


class TapebookStrategy(IStrategy):
    """Follows the average of twelve closes; put your own rules into the two trend methods."""

    INTERFACE_VERSION = 3
    timeframe = "5m"
    can_short = False
    minimal_roi: ClassVar[dict[str, float]] = {}
    stoploss = -0.1
    startup_candle_count = 12
    obey_guard = True
    """Whether an entry that the guard advises against is left out."""

    def bot_start(self, **kwargs: Any) -> None:
        """Opens the home and makes an agent of the pairs; whoever runs one bot per home needs no more."""
        self.tb = getattr(self, "tb", None) or tapebook.open(self.config["tapebook_home"])
        pairs = self.config["exchange"]["pair_whitelist"]
        self.symbols = {pair: pair.split("/")[0] for pair in pairs}
        if not any(each["name"] == "freqtrade" for each in self.tb.agents()):
            self.tb.add_agent("freqtrade", {"watch": ",".join(self.symbols.values()), "broker": "external"})

    def populate_indicators(self, dataframe: Any, metadata: dict[str, Any]) -> Any:
        """Tells the newest finished candles; those that are there are left alone."""
        seconds = MINUTES[self.timeframe] * 60
        names = ("date", "open", "high", "low", "close", "volume")
        rows = list(zip(*(dataframe[name] for name in names), strict=True))[-100:]
        bars = [dict(zip(names[1:], row[1:], strict=True)) | {"time": _milliseconds(row[0])} for row in rows]
        self.tb.observe(self.symbols[metadata["pair"]], candles=bars, interval_seconds=seconds)
        closes = list(dataframe["close"])
        dataframe["average"] = [sum(closes[max(0, n - 11) : n + 1]) / min(n + 1, 12) for n in range(len(closes))]
        return dataframe

    def populate_entry_trend(self, dataframe: Any, metadata: dict[str, Any]) -> Any:
        dataframe["enter_long"] = [
            int(close > mean) for close, mean in zip(dataframe["close"], dataframe["average"], strict=True)
        ]
        return dataframe

    def populate_exit_trend(self, dataframe: Any, metadata: dict[str, Any]) -> Any:
        dataframe["exit_long"] = [
            int(close < mean) for close, mean in zip(dataframe["close"], dataframe["average"], strict=True)
        ]
        return dataframe

    def confirm_trade_entry(
        self,
        pair: str,
        order_type: str,
        amount: float,
        rate: float,
        time_in_force: str,
        current_time: datetime,
        entry_tag: str | None,
        side: str,
        **kwargs: Any,
    ) -> bool:
        """Records the entry with what was known; False where the guard advises against it."""
        terms = {"side": side, "notional_usd": amount * rate}
        run = self._record(pair, "open", entry_tag or "entry signal", rate, candle=self._candle(current_time), **terms)
        return run["actions"][0]["verdict"] == "allowed" or not self.obey_guard

    def confirm_trade_exit(
        self,
        pair: str,
        trade: Any,
        order_type: str,
        amount: float,
        rate: float,
        time_in_force: str,
        exit_reason: str,
        current_time: datetime,
        **kwargs: Any,
    ) -> bool:
        """Records the exit; what ends a position is never held back."""
        self._record(pair, "close", exit_reason, rate)
        return True

    def order_filled(self, pair: str, trade: Any, order: Any, current_time: datetime, **kwargs: Any) -> None:
        """Books what was filled, by the id of the exchange."""
        fee = (
            order.safe_filled * order.safe_price * (trade.fee_open if order.ft_order_side == "buy" else trade.fee_close)
        )
        self.tb.record_fill(
            "freqtrade",
            self.symbols[pair],
            id=order.order_id,
            side=order.ft_order_side,
            size=order.safe_filled,
            price=order.safe_price,
            fee_usd=fee,
            last=True,
        )
        self.tb.learn("freqtrade")

    def _candle(self, moment: datetime) -> int:
        step = MINUTES[self.timeframe] * 60_000
        return _milliseconds(moment) // step * step

    def _record(
        self, pair: str, action: Any, reason: str, rate: float, *, candle: int | None = None, **terms: Any
    ) -> Any:
        symbol = self.symbols[pair]
        self.tb.observe(symbol, prices=rate)
        with self.tb.decision("freqtrade", symbol, at=candle) as decision:
            if decision.run is None:
                return decision.record(action, reason=reason, provider=type(self).__name__, **terms)
        # An entry that was recorded before a crash waits for its fill; one that was filled is another entry.
        placed = decision.run["status"] == "placed"
        return decision.run if placed else self._record(pair, action, reason, rate, **terms)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000)
