"""Downloads bars and funding of a symbol from Hyperliquid's REST into a file that `tapebook import` reads.

A page at a time, each within the weight an address has in a minute, and each appended to the file when it is there:
a download that was stopped goes on with the first page that is missing. The exchange keeps the newest 5,000 bars of
each length.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.domain import files
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, HOUR, SECOND, iso_text, parse_instant
from tapebook.errors import BadInput, Busy, StoreFailed
from tapebook.sources.hyperliquid.rest import EncodedRequest, RateLimit, RestRefusal, post_request, rest_weight

if TYPE_CHECKING:
    from aiohttp import ClientSession

KEPT_BARS = 5_000
"""How many of its newest bars of a length the exchange has."""

_ROWS_PER_PAGE = 500
_TIMEOUT_S = 20.0
# A server that is busy or broken is asked again so long after its first answers.
_WAITS_S = (2.0, 5.0, 20.0)
HEADERS = {"candles": "time,open,high,low,close,volume,trades", "funding": "time,rate"}

DownloadKind = Literal["candles", "funding"]
Sleep = Callable[[float], Awaitable[None]]


class Download(msgspec.Struct, frozen=True):
    """What is to be fetched: rows of a symbol from a moment on, each `step_ms` after the one before."""

    kind: DownloadKind
    symbol: str
    interval: str
    step_ms: int
    since: int
    now: int
    url: str

    @property
    def first(self) -> int:
        """The oldest row that can be had."""
        since = -(-self.since // self.step_ms) * self.step_ms
        return max(since, self.last - KEPT_BARS * self.step_ms) if self.kind == "candles" else since

    @property
    def last(self) -> int:
        """The newest row that is finished."""
        return self.now - self.now % self.step_ms - (self.step_ms if self.kind == "candles" else 0)


class DownloadReport(msgspec.Struct, frozen=True):
    """What a file has by now, and how much of it is new."""

    file: str
    symbol: str
    rows: int
    new_rows: int
    first_ts: int
    last_ts: int
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What was fetched, for people."""
        span = f"{iso_text(self.first_ts)[:16]} to {iso_text(self.last_ts)[:16]} UTC"
        return [
            f"{self.file}: {plural(self.rows, 'row')} of {self.symbol}, {span}, {self.new_rows:,} new",
            *(f"note: {note}" for note in self.notes),
        ]


async def fetch_history(
    download: Download,
    path: Path,
    *,
    weight_share: float,
    progress: Callable[[float, int], None] = lambda done, rows: None,
    sleep: Sleep = asyncio.sleep,
) -> DownloadReport:
    """Fetches what the file does not have yet, with a share of the weight that an address has in a minute."""
    from aiohttp import ClientSession

    written, budget = _rows_of(path, download), RateLimit(rest_weight(weight_share))
    before = len(written)
    async with ClientSession() as http:
        for since, until in _missing_pages(download, written):
            answer = await _ask(http, download, _page_request(download, since, until), budget=budget, sleep=sleep)
            rows = [row for row in _read_rows(download, answer) if since <= row[0] <= until and row[0] not in written]
            _append(path, download, [line for _, line in rows])
            written |= {moment for moment, _ in rows}
            span = max(1, download.last - download.first)
            progress(min(1.0, (until - download.first) / span), len(written) - before)
    if not written:
        raise BadInput(f"{download.url} has no {download.kind} of {download.symbol}: check the spelling and the range")
    first, last = min(written), max(written)
    notes = _notes(download, first)
    return DownloadReport(str(path), download.symbol, len(written), len(written) - before, first, last, notes)


def _missing_pages(download: Download, written: Set[int]) -> list[tuple[int, int]]:
    """The pages to ask for, each by its first and last row: those of which the file has no rows, or not the last."""
    step, found = download.step_ms, []
    span = _ROWS_PER_PAGE * step
    for page in range(download.first - download.first % span, download.last + 1, span):
        since, until = max(page, download.first), min(page + span - step, download.last)
        if since in written:
            # Rows are appended in order: behind the newest of a page that was begun nothing was asked for.
            since = max(at for at in range(since, until + 1, step) if at in written) + step
        if since <= until:
            found.append((since, until))
    return found


def _notes(download: Download, first: int) -> tuple[str, ...]:
    short = (first - download.since) / DAY
    if download.kind == "candles" and short >= 1:
        kept = f"the source keeps the newest {KEPT_BARS:,} bars of {download.interval}"
        return (f"{kept}: {short:.1f} of the days asked for are not there; larger bars reach further back",)
    return ()


def _page_request(download: Download, since: int, until: int) -> EncodedRequest:
    """The question for the rows between two moments, with what it weighs."""
    rows = (until - since) // download.step_ms + 1
    if download.kind == "funding":
        # Rates are settled a few milliseconds past the hour they belong to.
        asked = {"coin": download.symbol, "startTime": since, "endTime": until + SECOND}
        return EncodedRequest(msgspec.json.encode({"type": "fundingHistory", **asked}), 20 + -(-rows // 20))
    asked = {"coin": download.symbol, "interval": download.interval, "startTime": since, "endTime": until}
    return EncodedRequest(msgspec.json.encode({"type": "candleSnapshot", "req": asked}), 20 + -(-rows // 60))


class _Bar(msgspec.Struct, rename={"begins": "t", "open": "o", "high": "h", "low": "l", "close": "c"}):
    begins: int
    open: str
    high: str
    low: str
    close: str
    v: str
    n: int


class _Rate(msgspec.Struct, rename="camel"):
    time: int
    funding_rate: str


def _read_rows(download: Download, body: bytes) -> list[tuple[int, str]]:
    """The rows of an answer as lines of the file, each with its moment."""
    try:
        if download.kind == "funding":
            rates = [(each.time - each.time % HOUR, each) for each in msgspec.json.decode(body, type=list[_Rate])]
            return [(moment, f"{iso_text(moment)},{rate.funding_rate}") for moment, rate in rates]
        bars = msgspec.json.decode(body, type=list[_Bar])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Busy(f"{download.url} gave an answer that cannot be read ({error}): try again later") from error
    return [
        (bar.begins, ",".join((iso_text(bar.begins), bar.open, bar.high, bar.low, bar.close, bar.v, str(bar.n))))
        for bar in bars
    ]


async def _ask(
    http: "ClientSession", download: Download, request: EncodedRequest, *, budget: RateLimit, sleep: Sleep
) -> bytes:
    """An answer; BadInput when the source does not know the symbol, Busy when it goes on refusing."""
    refusal = RestRefusal("")
    for wait in (0.0, *_WAITS_S):
        await sleep(refusal.wait_s or wait)
        await sleep(budget.delay_s(request.weight, elapsed_seconds()))
        budget.spend(request.weight, elapsed_seconds())
        answer = await post_request(http, f"{download.url.rstrip('/')}/info", request, timeout_s=_TIMEOUT_S)
        if isinstance(answer, bytes):
            return answer
        refusal = answer
    # The exchange says the same of a symbol it does not know as of trouble of its own, but not for long.
    if refusal.why.startswith("500 null"):
        raise BadInput(f"{download.url} does not know {download.symbol}: check the spelling, such as BTC or kPEPE")
    raise Busy(f"{download.url} does not answer ({refusal.why}): run the same command again to go on")


def _rows_of(path: Path, download: Download) -> set[int]:
    """The moments of the rows a file has; of a file that ends in the middle of a line, the rest is cut off."""
    header = HEADERS[download.kind]
    if not path.exists():
        return set()
    text = path.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    lines = whole.splitlines()
    if not lines or lines[0] != header:
        raise BadInput(f"{path} is another file: choose another name with `out=`, or remove it")
    if whole != text:
        path.write_text(whole, "utf-8")
    return {parse_instant(line.partition(",")[0]) for line in lines[1:]}


def _append(path: Path, download: Download, lines: Sequence[str]) -> None:
    try:
        is_new = not path.exists()
        with open(path, "a", encoding="utf-8", opener=files.private_opener) as file:
            file.write("".join(f"{line}\n" for line in ([HEADERS[download.kind]] if is_new else []) + list(lines)))
    except OSError as error:
        raise StoreFailed(f"cannot write {path}: {error.strerror}; choose another place with `out=`") from error
