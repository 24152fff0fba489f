"""What the engine is given: typed sections, the text they render to, the hashes of both, citations, and typed facts.

A citation is a place in a document with the lines found there: search returns it, and a decision cites it back.
Facts are the figures that rules reckon with: integers of a unit, as they were before they became text. They come from
the same situation as the sections and are no part of the packet's bytes.
"""

from html import escape
from typing import Any, Literal

import msgspec


class Citation(msgspec.Struct, frozen=True):
    """Lines of a document as they were read; `id` (`c1`, `c2`…) is its name within one packet.

    `source` says which search found it, and `content_sha256` is of the whole document, so that the place can be shown
    after the document has changed.
    """

    path: str
    start_line: int
    end_line: int
    score_e4: int
    snippet: str
    source: str
    id: str
    content_sha256: str

    @property
    def score(self) -> float:
        """The score as a number between 0 and 1."""
        return self.score_e4 / 10_000

    def to_dict(self) -> dict[str, Any]:
        """The citation for programs."""
        return {
            "id": self.id,
            "path": self.path,
            "startLine": self.start_line,
            "endLine": self.end_line,
            "score": self.score,
            "snippet": self.snippet,
            "source": self.source,
            "contentSha256": self.content_sha256,
        }


class Segment(msgspec.Struct, frozen=True):
    """One part of the system message: header, leash, strategy, lessons or footer."""

    name: str
    text: str


class Section(msgspec.Struct, frozen=True, gc=False):
    """One table of the packet. Cells are text with declared digits, so that they have one set of bytes."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    dropped: int = 0

    def cells(self, column: str) -> list[str]:
        """One column, top to bottom."""
        at = self.columns.index(column)
        return [row[at] for row in self.rows]

    def get(self, key: str) -> str | None:
        """The value of a row in a section of (key, value) rows."""
        for row in self.rows:
            if row[0] == key:
                return row[1]
        return None


PositionSide = Literal["long", "short"]


class BarPrices(msgspec.Struct, frozen=True):
    """The prices of the finished bars that are shown, oldest first, in columns of the same length.

    `newest_at` is when the newest bar began; 0 without any.
    """

    highs_e8: tuple[int, ...] = ()
    lows_e8: tuple[int, ...] = ()
    closes_e8: tuple[int, ...] = ()
    newest_at: int = 0


class AnalogFacts(msgspec.Struct, frozen=True):
    """What the market did after `n` independent situations like this one: its mean move in basis points.

    `low_bps` and `high_bps` are the ends of the 95 % interval of the mean, `horizon_ms` how far ahead it looks,
    `costs_bps` what entering and leaving a position costs.
    """

    mean_bps: float
    low_bps: float
    high_bps: float
    n: float
    horizon_ms: int = 0
    costs_bps: float = 0.0


class DecisionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The figures behind a packet, typed: what rules and the ensemble reckon with.

    `funding_e12` is the hourly rate, known for `funding_age_ms` and settled every `funding_hours`. `held_usd_e6` is the
    position in the packet's symbol at its mark, short below zero. Caps are None where no account is known.
    `weights` are the members an ensemble trusts, `cash` and `equal` among them; empty when nothing was learned.
    `missed_e9` is what not holding their target has cost since the last trade, in billionths of the notional, and
    `cost_ppm` what a trade costs. `lessons_scale_e4` and, for shorts, `lessons_scale_short_e4` scale
    what is entered by the lessons in `lessons_followed`. `believed_e4` is the hit rate to believe for each tenth of
    confidence, for whoever sizes by it; empty for all others.
    """

    symbol: str = ""
    as_of: int = 0
    bars: BarPrices = BarPrices()
    price_e8: int | None = None
    regime: str | None = None
    half_spread_ppm: int | None = None
    funding_e12: int | None = None
    funding_age_ms: int | None = None
    funding_hours: int = 1
    held_usd_e6: int = 0
    equity_usd_e6: int | None = None
    max_position_usd_e6: int | None = None
    max_leverage: int | None = None
    min_notional_usd_e6: int = 0
    max_account_usd_e6: int | None = None
    account_used_usd_e6: int = 0
    cost_ppm: int = 0
    weights: dict[str, int] = {}
    missed_e9: int = 0
    lessons_scale_e4: int = 10_000
    lessons_scale_short_e4: int = 10_000
    lessons_followed: tuple[str, ...] = ()
    believed_e4: tuple[int, ...] = ()
    analog: AnalogFacts | None = None

    @property
    def held_side(self) -> PositionSide | None:
        """The side that is held in the symbol."""
        return "long" if self.held_usd_e6 > 0 else "short" if self.held_usd_e6 < 0 else None


class Packet(msgspec.Struct, frozen=True):
    """The whole message, ready to send: a pure function of what was known.

    `system` is its segments, an empty line between two of them; `citations` are those the text shows. `facts` are the
    same situation typed, for engines that reckon.
    """

    agent: str
    symbol: str
    as_of: int
    renderer: int
    system: str
    text: str
    sections: tuple[Section, ...]
    tokens: int
    section_tokens: dict[str, int]
    inputs_sha256: str
    sha256: str
    segments: tuple[Segment, ...] = ()
    citations: tuple[Citation, ...] = ()
    facts: DecisionFacts = DecisionFacts()

    def section(self, name: str) -> Section | None:
        """A section by name, or None when nothing was there to say."""
        for section in self.sections:
            if section.name == name:
                return section
        return None

    def _repr_html_(self) -> str:
        """The packet as notebooks show it: what is said in it is text, and never markup."""
        about = f"{self.agent} {self.symbol}, {self.tokens:,} tokens, sha256 {self.sha256[:16]}"
        return f"<p>{escape(about)}</p><pre>{escape(self.system)}\n\n{escape(self.text)}</pre>"

    @property
    def citation_ids(self) -> frozenset[str]:
        """What an action may cite: the first column of the citations."""
        found = self.section("citations")
        return frozenset(row[0] for row in found.rows) if found else frozenset()
