"""What a decision asks its documents: one fixed sentence over what it is about.

The words of an exit are a model's, so they are cut short; they only choose what is found, and are shown nowhere.
"""

from collections.abc import Sequence

import msgspec

_MOST_WORDS = 60


class Question(msgspec.Struct, frozen=True):
    """A symbol, the regime of its bars, the strategy, the side held (empty for none), and why it was left last.

    Strategy and exit are sanitised lines; of each the first one, which names what the rest explains, is asked about.
    """

    symbol: str
    regime: str
    strategy: Sequence[str]
    side: str = ""
    last_exit: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The sentence."""
        held = f"open position {self.side}" if self.side else "no open position"
        parts = [self.symbol, self.regime.replace("_", " "), _short(self.strategy), held, _short(self.last_exit)]
        return " ".join(part for part in parts if part)


def _short(lines: Sequence[str]) -> str:
    return next(iter(lines), "")[:_MOST_WORDS]
