"""The hourly snapshot of DefiLlama, without any I/O: eight questions, and the rows of three tables that follow.

`capital_base` is what is there: value locked and supply. `capital_flows` is how that has changed in a day and a week.
`economic_throughput` is what is done with it: volume, fees, revenue and open interest. Subjects are all of it
(`global/defi`), chains (`chain/bitcoin`), protocols (`protocol/aave-v3`) and stablecoins (`stablecoin/1`), the largest
of each kind. Rows of chains carry the symbol of their token, those of stablecoins their own, so that a read about an
asset finds what concerns it. How a chain has changed nobody says: it is compared with the tape's own row of a day ago.
An hour whose questions were not all answered has no rows: half a sum would look like an outflow. The next hour asks
from the first question on, so that the parts of a snapshot are of one time; within the hour a process that was killed
goes on with the question it stopped at.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import FeatureRow, RegistryRecord, SubjectKind
from tapebook.domain.units import DAY, HOUR, MINUTE, floor_to_step
from tapebook.sources._polling import HttpRequest, missed_hours
from tapebook.sources.defillama.wire import (
    OPEN_INTEREST,
    ChainRow,
    Overview,
    ProtocolRow,
    StablecoinRow,
    chain_by_symbol,
    read_chains,
    read_history,
    read_overview,
    read_protocols,
    read_stablecoins,
)
from tapebook.tape.registry import ASSET_SUBJECTS, GLOBAL_SUBJECT, MACRO_CHANNELS
from tapebook.tape.source import Sink, SourceProgress

NAME = "defillama"

# What is asked for without its charts, which are megabytes; both words are needed.
_WITHOUT_CHARTS = (("excludeTotalDataChart", "true"), ("excludeTotalDataChartBreakdown", "true"))
_FLOW_LIMIT_PERCENT = 0.5
# A week before the newest day, and some days that may be missing.
_DAYS_COMPARED = 15


class SnapshotSettings(msgspec.Struct, frozen=True):
    """Where to ask, and of how many subjects of a kind rows are kept."""

    api_url: str
    stablecoins_url: str
    chains: int
    protocols: int
    stablecoins: int


class SnapshotPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one answer left of a snapshot: the rows of its kind."""

    kind: str
    at: int
    chains: tuple[ChainRow, ...] = ()
    protocols: tuple[ProtocolRow, ...] = ()
    history: tuple[tuple[int, float], ...] = ()
    stablecoins: tuple[StablecoinRow, ...] = ()
    overview: Overview | None = None


class _Answers:
    """What has been answered of a snapshot."""

    def __init__(self) -> None:
        self.chains: Sequence[ChainRow] = ()
        self.protocols: Sequence[ProtocolRow] = ()
        self.history: Sequence[tuple[int, float]] = ()
        self.stablecoins: Sequence[StablecoinRow] = ()
        self.overviews: dict[str, Overview] = {}
        self.parts = 0

    def add_part(self, part: SnapshotPart) -> None:
        """Adds what an answer left."""
        self.parts += 1
        if part.overview is not None:
            self.overviews[part.kind] = part.overview
        else:
            setattr(self, part.kind, getattr(part, part.kind))


class DefiLlamaSnapshot:
    """The state of the source: which questions of the hour are left.

    `tvl_at` is what the tape knows of a chain's value at a moment.
    """

    def __init__(
        self,
        settings: SnapshotSettings,
        sink: Sink,
        *,
        newest: int | None,
        tvl_at: Callable[[str, int], float | None] = lambda subject, at: None,
    ) -> None:
        self._settings, self._sink, self._newest = settings, sink, newest
        self._tvl_at = tvl_at
        self._answers = _Answers()
        self._steps: Iterator[HttpRequest] | None = None
        self._request: HttpRequest | None = None
        self._began_at = 0
        self._not_before = 0

    def next_request(self, now: int) -> HttpRequest | None:
        """The question to ask next; a snapshot begins with the hour, and ends with it."""
        is_late = self._request is not None and floor_to_step(now, HOUR) > floor_to_step(self._began_at, HOUR)
        if is_late or (self._request is None and self._is_due(now)):
            self._begin(now)
        return self._request

    def _begin(self, at: int) -> None:
        if self._answers.parts:
            self._sink.add_progress(SourceProgress(NAME))
        self._answers, self._steps, self._began_at = _Answers(), iter(self._requests()), at
        self._request = next(self._steps)

    def restore(self, parts: Sequence[str], now: int) -> None:
        """Goes on with the snapshot of a process that has ended, if it is of this hour and was not delivered."""
        answers = [msgspec.json.decode(part, type=SnapshotPart) for part in parts]
        if not answers:
            return
        if floor_to_step(answers[0].at, HOUR) != floor_to_step(now, HOUR) or not self._is_due(now):
            self._sink.add_progress(SourceProgress(NAME))
            return
        self._begin(answers[0].at)
        for answer in answers:
            self._add_part(answer)

    def start_state(self) -> str | None:
        """Nothing: the questions of every hour are the same."""
        return None

    def _is_due(self, now: int) -> bool:
        is_new = self._newest is None or floor_to_step(now, HOUR) > floor_to_step(self._newest, HOUR)
        return is_new and now >= self._not_before

    def _requests(self) -> list[HttpRequest]:
        api = self._settings.api_url
        fees = f"{api}/overview/fees"
        return [
            HttpRequest("chains", f"{api}/v2/chains"),
            HttpRequest("protocols", f"{api}/protocols"),
            HttpRequest("history", f"{api}/v2/historicalChainTvl"),
            HttpRequest("stablecoins", f"{self._settings.stablecoins_url}/stablecoins", (("includePrices", "true"),)),
            HttpRequest("volume", f"{api}/overview/dexs", _WITHOUT_CHARTS),
            HttpRequest("fees", fees, (*_WITHOUT_CHARTS, ("dataType", "dailyFees"))),
            HttpRequest("revenue", fees, (*_WITHOUT_CHARTS, ("dataType", "dailyRevenue"))),
            HttpRequest("openInterest", f"{api}/overview/open-interest", _WITHOUT_CHARTS),
        ]

    def handle_answer(self, request: HttpRequest, body: bytes, now: int) -> str | None:
        """Takes an answer; why it cannot be read, if it cannot."""
        try:
            part = self._part_of(request.kind, body, now)
        except ValueError as error:
            return str(error)
        state = msgspec.json.encode(part).decode()
        self._sink.add_progress(SourceProgress(NAME, self._answers.parts + 1, state))
        self._add_part(part)
        if self._request is None:
            self._deliver(floor_to_step(now, MINUTE))
        return None

    def _add_part(self, part: SnapshotPart) -> None:
        assert self._steps is not None
        self._answers.add_part(part)
        self._request = next(self._steps, None)

    def _part_of(self, kind: str, body: bytes, now: int) -> SnapshotPart:
        if kind == "chains":
            return SnapshotPart(kind, now, chains=tuple(read_chains(body)))
        if kind == "protocols":
            # The largest of seven thousand: no sum is made of them.
            return SnapshotPart(kind, now, protocols=tuple(read_protocols(body)[: self._settings.protocols]))
        if kind == "history":
            days = read_history(body)
            return SnapshotPart(kind, now, history=tuple(days[-_DAYS_COMPARED:]))
        if kind == "stablecoins":
            return SnapshotPart(kind, now, stablecoins=tuple(read_stablecoins(body)))
        return SnapshotPart(kind, now, overview=read_overview(body))

    def skip_request(self, request: HttpRequest, why: str, now: int) -> None:
        """Leaves the hour without a snapshot: the next hour asks anew."""
        self._request, self._steps, self._answers = None, None, _Answers()
        self._not_before = floor_to_step(now, HOUR) + HOUR
        self._sink.add_progress(SourceProgress(NAME))

    def _deliver(self, bucket: int) -> None:
        rows = self._rows(bucket)
        self._sink.add_kinds({subject: _kind_of(subject) for _, subject, _ in rows})
        self._sink.add_observations(
            [FeatureRow(subject, bucket, canonical_json(values).decode(), channel) for channel, subject, values in rows]
        )
        self._sink.add_observations(_subject_records(self._answers, bucket))
        for channel in MACRO_CHANNELS:
            for gap in missed_hours(NAME, channel, newest=self._newest, bucket=bucket, step=HOUR):
                self._sink.add_gap(gap)
        self._newest = bucket
        self._answers = _Answers()
        self._sink.add_progress(SourceProgress(NAME))

    def _rows(self, bucket: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Channel, subject and figures of all rows."""
        found = [*_global_rows(self._answers, bucket)]
        named = chain_by_symbol(self._answers.chains)
        # Chains that a symbol leads to come first: they are what assets are joined to.
        joined = sorted({*named.values()}, key=lambda row: (-row.tvl, row.name))
        others = [row for row in self._answers.chains if row not in joined]
        for row in [*joined, *others][: self._settings.chains]:
            symbol = row.symbol if named.get(row.symbol) == row else ""
            about = {"name": row.name, "tokenSymbol": symbol or None}
            subject = f"chain/{_slug(row.name)}"
            found.append(("capital_base", subject, about | {"tvlUsd": _usd(row.tvl)}))
            day_ago = self._tvl_at(subject, bucket - DAY)
            change = None if not day_ago else 100 * (row.tvl / day_ago - 1)
            flows = {"flow24hUsd": _difference(row.tvl, day_ago), "flowBias": flow_word(change)}
            found.append(("capital_flows", subject, about | flows))
        for protocol in self._answers.protocols[: self._settings.protocols]:
            subject = f"protocol/{_slug(protocol.slug)}"
            about = {"name": protocol.name, "category": protocol.category, "tokenSymbol": protocol.symbol or None}
            found.append(("capital_base", subject, about | {"tvlUsd": _usd(protocol.tvl)}))
            changes = {"change1dPct": _percent(protocol.change_1d), "change7dPct": _percent(protocol.change_7d)}
            found.append(("capital_flows", subject, about | changes))
        for coin in self._answers.stablecoins[: self._settings.stablecoins]:
            about = {"name": coin.name, "symbol": coin.symbol or None}
            subject = f"stablecoin/{_slug(coin.id)}"
            found.append(("capital_base", subject, about | {"supplyUsd": _usd(coin.supply)}))
            flows = {"flow24hUsd": _difference(coin.supply, coin.day_ago)}
            flows["flow7dUsd"] = _difference(coin.supply, coin.week_ago)
            found.append(("capital_flows", subject, about | flows))
        return [*found, *_earner_rows(self._answers, self._settings.protocols)]


def _subject_records(answers: _Answers, bucket: int) -> list[RegistryRecord]:
    """Which subjects concern an asset, by its symbol: the chain whose token it is, and the stablecoin it is."""
    found = {symbol: [f"chain/{_slug(row.name)}"] for symbol, row in chain_by_symbol(answers.chains).items()}
    for coin in reversed(answers.stablecoins):
        # Of several with one symbol the largest is meant, and it comes last here.
        if coin.symbol:
            chains = [subject for subject in found.get(coin.symbol, []) if subject.startswith("chain/")]
            found[coin.symbol] = [*chains, f"stablecoin/{_slug(coin.id)}"]
    return [
        RegistryRecord(symbol, bucket, canonical_json({"subjects": subjects}).decode(), ASSET_SUBJECTS)
        for symbol, subjects in sorted(found.items())
    ]


def _global_rows(answers: _Answers, bucket: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The row of all of DeFi in each table."""
    # Of the chains and not of the protocols: those count value twice, and exchanges with it.
    tvl = sum(row.tvl for row in answers.chains)
    supply = sum(row.supply for row in answers.stablecoins)
    yield "capital_base", GLOBAL_SUBJECT, {"tvlUsd": _usd(tvl), "stablecoinSupplyUsd": _usd(supply)}
    known = [row for row in answers.stablecoins if row.day_ago is not None]
    flow = sum(row.supply - (row.day_ago or 0.0) for row in known)
    week = [row for row in answers.stablecoins if row.week_ago is not None]
    day_change, week_change = _history_changes(answers.history, bucket)
    yield (
        "capital_flows",
        GLOBAL_SUBJECT,
        {
            "stablecoinFlow24hUsd": _usd(flow) if known else None,
            "stablecoinFlow7dUsd": _usd(sum(row.supply - (row.week_ago or 0.0) for row in week)) if week else None,
            "tvlChange1dPct": _percent(day_change),
            "tvlChange7dPct": _percent(week_change),
            "chainFlowBias": flow_word(day_change),
        },
    )
    values: dict[str, Any] = {}
    for name, overview in sorted(answers.overviews.items()):
        values |= _throughput(name, overview)
    yield "economic_throughput", GLOBAL_SUBJECT, values


def _throughput(name: str, overview: Overview) -> dict[str, Any]:
    if name == "openInterest":
        # The total counts front ends beside the venues behind them; a sum over days would mean nothing.
        counted = [row.day for row in overview.rows if row.category in OPEN_INTEREST]
        return {"openInterestUsd": _usd(sum(counted))}
    change = overview.change_1d
    if change is None and overview.day_before:
        change = 100 * (overview.day / overview.day_before - 1)
    return {f"{name}24hUsd": _usd(overview.day), f"{name}Change1dPct": _percent(change)}


def _history_changes(history: Sequence[tuple[int, float]], bucket: int) -> tuple[float | None, float | None]:
    """How the value of all chains has changed in a day and a week, in percent; the last point is now."""
    if len(history) < 2:
        return None, None
    newest = history[-1][1]
    changes = []
    for span in (DAY, 7 * DAY):
        before = [tvl for at, tvl in history[:-1] if at <= bucket - span]
        changes.append(100 * (newest / before[-1] - 1) if before and before[-1] else None)
    return changes[0], changes[1]


def flow_word(change_percent: float | None) -> str | None:
    """What a change of the value locked is called; None when it is not known."""
    if change_percent is None:
        return None
    if abs(change_percent) < _FLOW_LIMIT_PERCENT:
        return "neutral"
    return "inflow" if change_percent > 0 else "outflow"


def _earner_rows(answers: _Answers, most: int) -> list[tuple[str, str, dict[str, Any]]]:
    """What protocols and chains turn over, those of most fees first; fees of a chain are what its blocks cost."""
    found: dict[str, dict[str, Any]] = {}
    # Fees, revenue and volume of one protocol share its number; its slug may differ from answer to answer.
    subjects: dict[str, str] = {}
    for name, overview in sorted(answers.overviews.items()):
        unit = "openInterestUsd" if name == "openInterest" else f"{name}24hUsd"
        for row in overview.rows[:most]:
            if name == "openInterest" and row.category not in OPEN_INTEREST:
                continue
            subject = subjects.setdefault(row.id, f"{'chain' if row.is_chain else 'protocol'}/{_slug(row.slug)}")
            about = found.setdefault(subject, {"name": row.name, "category": row.category})
            about[unit] = _usd(row.day)
    return [("economic_throughput", subject, values) for subject, values in sorted(found.items())]


def _kind_of(subject: str) -> SubjectKind:
    kinds: Mapping[str, SubjectKind] = {"chain": "chain", "protocol": "protocol", "stablecoin": "stablecoin"}
    return kinds.get(subject.partition("/")[0], "global")


def _slug(name: str) -> str:
    """A name as a part of a subject, which has no blanks: `hyperliquid-l1`."""
    return re.sub(r"[^a-z0-9.#-]+", "-", name.casefold()).strip("-")[:60] or "unnamed"


def _usd(value: float) -> str:
    return str(round(value))


def _difference(now: float, before: float | None) -> str | None:
    return None if before is None else _usd(now - before)


def _percent(value: float | None) -> str | None:
    # Zero has no sign.
    return None if value is None else f"{value + 0.0:.2f}".replace("-0.00", "0.00")
