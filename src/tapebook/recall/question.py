"""What a decision asks its documents: one fixed sentence over what it is about.

Reasons that a model gave are no part of it: their words and figures would choose what is found. Packets of the first
rules asked in the words of the last exit too, and are replayed so.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tapebook.recall.terms import RULES

_MOST_WORDS = 60
_MOST_OTHERS = 4
_UNKNOWN = "unknown"


class Question(msgspec.Struct, frozen=True):
    """A symbol, the regime of its bars, the strategy, the side of every open position, and why it was left last.

    Strategy and exit are sanitised lines; of each the first one, which names what the rest explains, is asked about.
    """

    symbol: str
    regime: str
    strategy: Sequence[str]
    positions: Mapping[str, str] = {}
    last_exit: Sequence[str] = ()

    def text(self, *, rules: int = RULES) -> str:
        """The sentence."""
        side = self.positions.get(self.symbol, "")
        held = f"open position {side}" if side else ""
        parts = [self.symbol, self.regime.replace("_", " "), _short(self.strategy), held]
        if rules == 1:
            parts = [*parts[:3], held or "no open position", _short(self.last_exit)]
        else:
            parts[1] = "" if self.regime == _UNKNOWN else parts[1]
            parts.append(self._others())
        return " ".join(part for part in parts if part)

    def _others(self) -> str:
        others = sorted(symbol for symbol in self.positions if symbol != self.symbol)[:_MOST_OTHERS]
        held = " ".join(f"{symbol} {self.positions[symbol]}" for symbol in others)
        return f"open positions {held}" if held else ""


def _short(lines: Sequence[str]) -> str:
    return next(iter(lines), "")[:_MOST_WORDS]
