"""What a decision asks its documents: one fixed sentence over what it is about.

The words of an exit are a model's, so they are cut short; they only choose what is found, and are shown nowhere.
"""

import msgspec

from tapebook.recall.fence import lines

_MOST_WORDS = 60


class Question(msgspec.Struct, frozen=True):
    """A symbol, the regime of its bars, the strategy, the side held (empty for none), and why it was left last."""

    symbol: str
    regime: str
    strategy: str
    side: str = ""
    last_exit: str = ""

    @property
    def text(self) -> str:
        """The sentence."""
        held = f"open position {self.side}" if self.side else "no open position"
        parts = [self.symbol, self.regime.replace("_", " "), _short(self.strategy), held, _short(self.last_exit)]
        return " ".join(part for part in parts if part)


def _short(text: str) -> str:
    """The first line of a text, as far as it names what the rest explains."""
    return next(iter(lines(text)), "")[:_MOST_WORDS]
