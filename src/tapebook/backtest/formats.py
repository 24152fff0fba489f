"""Figures as text: money, shares, estimates and dates as people read them, and plain aligned tables."""

from collections.abc import Sequence

from tapebook.backtest.result import ChunkTrend, ResultRow
from tapebook.domain.estimate import Estimate
from tapebook.domain.text import sanitise
from tapebook.domain.units import E6, decimal_text, iso_text

NO_VALUE = "-"
_PPM_PER_PERCENT = 10_000


def usd_text(value_e6: int, *, signed: bool = False) -> str:
    """Money with two decimals and separated thousands."""
    text = decimal_text(abs(value_e6), E6, 2)
    whole, cents = text.split(".")
    zero = not int(whole) and not int(cents)
    sign = "" if zero else "-" if value_e6 < 0 else "+" if signed else ""
    return f"{sign}{int(whole):,}.{cents}"


def percent_text(ppm: int) -> str:
    """Millionths as a percentage with two decimals: arithmetic, not an estimate."""
    return f"{ppm / _PPM_PER_PERCENT:.2f}%"


def day_text(instant: int) -> str:
    """The date of an instant, with its time unless that is midnight."""
    text = iso_text(instant)
    return text[:10] if text[11:16] == "00:00" else f"{text[:10]} {text[11:16]}"


def share_text(share: Estimate | None) -> str:
    """A rate with n and interval, such as `61% (n=34, 95% 45% to 75%)`."""
    if share is None or not share.n:
        return "n=0"
    return f"{share.value:.0%} (n={share.n:,}, 95% {share.low:.0%} to {share.high:.0%})"


def sharpe_text(ratio: Estimate | None) -> str:
    """A Sharpe ratio with its days and interval; without one, that there are too few days or no change."""
    if ratio is None:
        return "too few days, or no change"
    return f"{ratio.value:.2f} (n={ratio.n:,} days, 95% {ratio.low:.2f} to {ratio.high:.2f})"


def signed_text(value: float, digits: int = 1) -> str:
    """A number with its sign; zero has none that says anything."""
    text = f"{value:+.{digits}f}"
    return f"+{text[1:]}" if float(text) == 0 else text


def interval_text(estimate: Estimate | None, *, digits: int = 2, edges: int = 1) -> str:
    """A value with its interval, for a table that says n beside it."""
    if estimate is None:
        return NO_VALUE
    return f"{estimate.value:.{digits}f} ({estimate.low:.{edges}f} to {estimate.high:.{edges}f})"


def share_interval_text(share: Estimate) -> str:
    """A rate with its interval in percent, for such a table."""
    return f"{share.value:.0%} ({100 * share.low:.0f} to {100 * share.high:.0f})" if share.n else NO_VALUE


def trend_text(trend: ChunkTrend | None) -> str:
    """Against all chunks before: `up +41.0 (3 to 79)`, or that it is unclear."""
    if trend is None:
        return NO_VALUE
    change = trend.change_bps
    return f"{trend.direction} {signed_text(change.value)} ({change.low:.0f} to {change.high:.0f})"


def weight_text(row: ResultRow) -> str:
    """How much a provider's word came to count."""
    if row.weight is None or row.weight_before is None:
        return NO_VALUE
    return f"{row.weight_before:.2f} to {row.weight:.2f}"


def plain_text(text: str) -> str:
    """A text from elsewhere on one line, without characters that could steer a terminal."""
    return sanitise(text).strip()


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 2) -> list[str]:
    """Lines of aligned columns, the first to the left and the others to the right; none without rows."""
    if not rows:
        return []
    lines = [headings, *([plain_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [" " * indent + _aligned_line(line, widths) for line in lines]


def text_record(pairs: Sequence[tuple[str, str]], *, indent: int = 2) -> list[str]:
    """Lines of `name  value`; what has no value is left out."""
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"{' ' * indent}{name:<{width}}  {plain_text(value)}" for name, value in pairs if value]


def _aligned_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()
