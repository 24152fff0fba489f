"""Experience as a folder of JSON files, and back: one per outcome and snapshot, and the records as two summaries.

    outcome_<trade id>.json          a trade: prices, times, result, providers, conditions, win or loss
    snapshot_<YYYYMMDD_HHMMSS>.json  what a chunk achieved; a second one of the same moment gets `_2`
    provider_performance.json        trades and wins by provider
    regime_performance.json          the same by regime

Amounts are decimal text, so that nothing is lost on the way. An outcome also has the features its decision saw, in
whole numbers: vectors are fitted again from the files alone. Reading a folder takes the outcomes and snapshots; the
summaries are computed from them and never read, so they cannot be counted twice. A file that is not what it should be
is refused with one line, and the rest is read.

Read are two further layouts of outcomes, which other programs write under the same file names:

    outcome_<decision id>.json       `asset_pair`, `action`, `entry_timestamp` …, amounts are numbers (`PairOutcome`)
    <anything>.jsonl                 `product`, `side`, `entry_size` …, one trade to a line (`ProductOutcome`)

What is no closed trade there (a hold, a trade without exit, a cumulative snapshot) is skipped, and named.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from tapebook.domain.position import TradeSide
from tapebook.domain.run import ActionKind
from tapebook.domain.text import has_hidden_characters
from tapebook.domain.units import E6, E8, decimal_text, divide_half_even, iso_text, parse_instant, to_units
from tapebook.errors import BadInput
from tapebook.experience.events import SeenFeatures
from tapebook.experience.features import FIELDS, MOMENT_FIELDS, MOST_FEATURE, FeatureVector
from tapebook.experience.records import (
    ALL,
    ASSET,
    PROVIDER,
    REGIME,
    UNKNOWN_REGIME,
    ChunkSnapshot,
    Outcome,
    OutcomeVote,
    Record,
    RecordKey,
)
from tapebook.experience.rows import bps_text, rate_text

# An outcome has a few kilobytes; a larger file is something else.
MOST_BYTES = 100_000
# A hundred thousand trades, one to a line.
MOST_JSONL_BYTES = 100_000_000
_E4 = 10_000
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_LONGEST = 200

OutcomeWithFeatures = tuple[Outcome, SeenFeatures]
"""An outcome, and what the decision that entered it saw."""


class VoteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vote in a file."""

    provider: str
    action: ActionKind
    side: Literal["long", "short"] | None
    confidence: str


class OutcomeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An outcome in a file. `realized_pnl` is net of fees and funding, `gross_pnl` is not."""

    trade_id: str
    decision_id: str | None
    asset: str
    side: TradeSide
    provider: str
    votes: tuple[VoteFile, ...]
    decision_confidence: str | None
    entry_price: str
    exit_price: str
    entry_time: str
    exit_time: str
    notional_usd: str
    gross_pnl: str
    realized_pnl: str
    outcome: Literal["win", "loss"]
    exit_reason: str
    regime: str
    market_conditions: dict[str, str]
    situation: dict[str, int] | None = None
    moment: dict[str, int] | None = None


class RecordFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sums of some trades in a file; results are in millionths of the notional entered."""

    trades: int
    wins: int
    sum_ppm: int
    sum_of_squares_ppm2: int
    net_usd: str


class SnapshotFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A snapshot in a file: what a chunk achieved, and what of that by provider, regime and asset."""

    chunk: str
    started_at: str
    ended_at: str
    result: RecordFile
    providers: dict[str, RecordFile]
    regimes: dict[str, RecordFile]
    assets: dict[str, RecordFile]


class ExperienceFolder(msgspec.Struct, frozen=True):
    """What a folder holds, in the order of time.

    `problems` has a line for each file that was refused, `skipped` one for each that holds no closed trade.
    """

    outcomes: tuple[OutcomeWithFeatures, ...]
    snapshots: tuple[ChunkSnapshot, ...]
    problems: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def export_folder(
    folder: Path,
    outcomes: Iterable[OutcomeWithFeatures],
    snapshots: Sequence[ChunkSnapshot],
    *,
    records: Mapping[RecordKey, Record],
) -> int:
    """Writes everything into a folder and returns how many files that were; BadInput when it is not empty."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise BadInput(f"{folder} is not empty: name a new folder to export to")
    count = 2
    for outcome, seen in outcomes:
        if not _PLAIN_ID.fullmatch(outcome.trade_id):
            raise BadInput(f"trade {outcome.trade_id!r} has an id that is no file name")
        _write(folder / f"outcome_{outcome.trade_id}.json", _outcome_file(outcome, seen))
        count += 1
    for snapshot in snapshots:
        _write(_free_path(folder, snapshot), _snapshot_file(snapshot))
        count += 1
    _write(folder / "provider_performance.json", _performance(records, PROVIDER))
    _write(folder / "regime_performance.json", _performance(records, REGIME))
    return count


def read_folder(folder: Path) -> ExperienceFolder:
    """Reads a folder; BadInput when there is none."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder")
    outcomes, snapshots = list[OutcomeWithFeatures](), list[ChunkSnapshot]()
    problems, skipped = list[str](), list[str]()
    for path in sorted((*folder.glob("*.json"), *folder.glob("*.jsonl"))):
        for place, read in _readers_of(path):
            try:
                found = read()
            except _NoClosedTrade as reason:
                skipped.append(f"{place}: {reason}")
            except (ValueError, OSError) as error:
                problems.append(f"{place}: {_one_line(error)}")
            else:
                snapshots += [found] if isinstance(found, ChunkSnapshot) else []
                outcomes += [] if isinstance(found, ChunkSnapshot) else [found]
    problems += _contradictory_twice(outcomes)
    outcomes.sort(key=lambda pair: (pair[0].exited_at, pair[0].trade_id))
    snapshots.sort(key=lambda snapshot: (snapshot.ended_at, snapshot.chunk))
    return ExperienceFolder(tuple(outcomes), tuple(snapshots), tuple(problems), tuple(skipped))


def _readers_of(path: Path) -> Iterator[tuple[str, Callable[[], OutcomeWithFeatures | ChunkSnapshot]]]:
    """What of a file is to be read: itself, or each of its lines, with the name to say where something is wrong."""
    if path.suffix == ".jsonl":
        if path.stat().st_size > MOST_JSONL_BYTES:
            raise BadInput(f"{path} has over {MOST_JSONL_BYTES:,} bytes: split it")
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if line.strip():
                yield f"{path.name}:{number}", partial(_product_outcome, line)
    elif path.name.startswith("outcome_"):
        yield path.name, partial(_outcome, path)
    elif path.name.startswith("snapshot_"):
        yield path.name, partial(_snapshot, path)


def _contradictory_twice(outcomes: Iterable[OutcomeWithFeatures]) -> list[str]:
    known, found = dict[str, Outcome](), list[str]()
    for outcome, _ in outcomes:
        first = known.setdefault(outcome.trade_id, outcome)
        found += [f"trade {outcome.trade_id}: {text}"] if (text := result_difference(first, outcome)) else []
    return found


def result_difference(known: Outcome, told: Outcome) -> str:
    """What two outcomes of one id say of its result, if that is not the same; else nothing."""
    results = [
        f"{each.symbol} {each.side} until {iso_text(each.exited_at)}, net {decimal_text(each.net_usd_e6, E6, 6)} USD"
        for each in (known, told)
    ]
    return "" if results[0] == results[1] else f"it is known as {results[0]}, and told as {results[1]}"


def _outcome_file(outcome: Outcome, seen: SeenFeatures) -> OutcomeFile:
    confidence = outcome.confidence_e4
    return OutcomeFile(
        trade_id=outcome.trade_id,
        decision_id=outcome.run_id,
        asset=outcome.symbol,
        side=outcome.side,
        provider=outcome.provider,
        votes=tuple(
            VoteFile(vote.provider, vote.action, vote.side, decimal_text(vote.confidence_e4, _E4, 4))
            for vote in outcome.votes
        ),
        decision_confidence=None if confidence is None else decimal_text(confidence, _E4, 4),
        entry_price=decimal_text(outcome.entry_price_e8, E8, 8),
        exit_price=decimal_text(outcome.exit_price_e8, E8, 8),
        entry_time=iso_text(outcome.entered_at),
        exit_time=iso_text(outcome.exited_at),
        notional_usd=decimal_text(outcome.notional_usd_e6, E6, 6),
        gross_pnl=decimal_text(outcome.gross_usd_e6, E6, 6),
        realized_pnl=decimal_text(outcome.net_usd_e6, E6, 6),
        outcome="win" if outcome.is_win else "loss",
        exit_reason=outcome.exit_reason,
        regime=outcome.regime,
        market_conditions=dict(outcome.conditions),
        situation=_named_features(FIELDS, seen.reading),
        moment=_named_features(MOMENT_FIELDS, seen.moment),
    )


def _named_features(names: Sequence[str], vector: FeatureVector | None) -> dict[str, int] | None:
    if vector is None:
        return None
    return {name: each for name, each in zip(names, vector, strict=True) if each is not None}


def _outcome(path: Path) -> OutcomeWithFeatures:
    """The outcome of a file; ValueError when it contradicts itself or its name."""
    content = _checked_bytes(path)
    if "asset_pair" in msgspec.json.decode(content, type=dict[str, msgspec.Raw]):
        return _pair_outcome(content, path.name)
    stored = msgspec.json.decode(content, type=OutcomeFile)
    outcome = Outcome(
        trade_id=stored.trade_id,
        run_id=stored.decision_id,
        symbol=stored.asset,
        side=stored.side,
        provider=stored.provider,
        votes=tuple(
            OutcomeVote(vote.provider, vote.action, vote.side, _confidence(vote.confidence)) for vote in stored.votes
        ),
        confidence_e4=None if stored.decision_confidence is None else _confidence(stored.decision_confidence),
        regime=stored.regime,
        conditions=tuple(sorted(stored.market_conditions.items())),
        entry_price_e8=to_units(stored.entry_price, E8),
        exit_price_e8=to_units(stored.exit_price, E8),
        entered_at=parse_instant(stored.entry_time),
        exited_at=parse_instant(stored.exit_time),
        notional_usd_e6=to_units(stored.notional_usd, E6),
        gross_usd_e6=to_units(stored.gross_pnl, E6),
        net_usd_e6=to_units(stored.realized_pnl, E6),
        exit_reason=stored.exit_reason,
    )
    _refuse_contradictions(stored, outcome, path.name)
    situation = _features_in_file(FIELDS, stored.situation, "situation")
    return outcome, SeenFeatures(situation, _features_in_file(MOMENT_FIELDS, stored.moment, "moment"))


class _NoClosedTrade(Exception):
    """A file that is fine, and holds nothing to learn from."""


class PairOutcome(msgspec.Struct, frozen=True):
    """A trade of the layout with `asset_pair`: amounts are numbers, confidence is in percent, results are net."""

    decision_id: str
    asset_pair: str
    action: str
    entry_timestamp: str
    exit_timestamp: str | None = None
    entry_price: float = 0.0
    exit_price: float | None = None
    position_size: float = 0.0
    realized_pnl: float | None = None
    ai_provider: str | None = None
    ensemble_providers: tuple[str, ...] | None = None
    decision_confidence: float = 0.0
    market_sentiment: str | None = None
    volatility: float | None = None
    price_trend: str | None = None
    was_profitable: bool | None = None
    hit_stop_loss: bool = False
    hit_take_profit: bool = False
    total_transaction_cost: float | None = None


class ProductOutcome(msgspec.Struct, frozen=True):
    """A trade of the layout with `product`: amounts are texts, and results are before fees."""

    trade_id: str
    product: str
    side: str
    entry_time: str
    exit_time: str
    entry_price: str
    exit_price: str
    entry_size: str
    realized_pnl: str
    decision_id: str | None = None
    fees: str = "0"


_SIDES: dict[str, TradeSide] = {"BUY": "long", "LONG": "long", "SELL": "short", "SHORT": "short"}
_QUOTES = re.compile(r"[-_/]?(USDT|USDC|USD)$")


def _pair_outcome(content: bytes, name: str) -> OutcomeWithFeatures:
    stored = msgspec.json.decode(content, type=PairOutcome)
    side = _SIDES.get(stored.action.upper())
    if side is None:
        raise _NoClosedTrade(f"{stored.action[:20]!r} is no trade")
    if stored.exit_timestamp is None or stored.exit_price is None or stored.realized_pnl is None:
        raise _NoClosedTrade("the trade has not ended")
    net = to_units(stored.realized_pnl, E6)
    if stored.was_profitable is not None and stored.was_profitable != (net > 0):
        raise ValueError(f"it says was_profitable={stored.was_profitable} and a realized_pnl of {stored.realized_pnl}")
    told = {"sentiment": stored.market_sentiment, "volatility": stored.volatility, "trend": stored.price_trend}
    # Who of an ensemble voted for what is not told, so its members get no credit.
    told["providers"] = ", ".join(stored.ensemble_providers) if stored.ensemble_providers else None
    outcome = Outcome(
        trade_id=stored.decision_id,
        run_id=None,
        symbol=_QUOTES.sub("", stored.asset_pair.upper()) or stored.asset_pair,
        side=side,
        provider=stored.ai_provider or "",
        votes=(),
        confidence_e4=_confidence(str(stored.decision_confidence / 100)),
        # Its own word: what it was computed from is not known here.
        regime=(stored.market_sentiment or stored.price_trend or UNKNOWN_REGIME).lower(),
        conditions=tuple(sorted((key, str(each)) for key, each in told.items() if each is not None)),
        entry_price_e8=to_units(stored.entry_price, E8),
        exit_price_e8=to_units(stored.exit_price, E8),
        entered_at=parse_instant(stored.entry_timestamp),
        exited_at=parse_instant(stored.exit_timestamp),
        notional_usd_e6=_notional_e6(str(stored.entry_price), str(stored.position_size)),
        gross_usd_e6=net + to_units(stored.total_transaction_cost or 0.0, E6),
        net_usd_e6=net,
        exit_reason="stop_loss" if stored.hit_stop_loss else "take_profit" if stored.hit_take_profit else "",
    )
    if name != f"outcome_{stored.decision_id}.json":
        raise ValueError(f"it is about decision {stored.decision_id!r}, which its name does not say")
    _refuse_impossible(outcome)
    return outcome, SeenFeatures()


def _product_outcome(line: bytes) -> OutcomeWithFeatures:
    stored = msgspec.json.decode(line, type=ProductOutcome)
    side = _SIDES.get(stored.side.upper())
    if side is None:
        raise _NoClosedTrade(f"{stored.side[:20]!r} is no trade")
    gross = to_units(stored.realized_pnl, E6)
    outcome = Outcome(
        trade_id=stored.trade_id,
        run_id=None,
        symbol=_QUOTES.sub("", stored.product.upper()) or stored.product,
        side=side,
        provider="",
        votes=(),
        confidence_e4=None,
        regime=UNKNOWN_REGIME,
        conditions=(("decision", stored.decision_id),) if stored.decision_id else (),
        entry_price_e8=to_units(stored.entry_price, E8),
        exit_price_e8=to_units(stored.exit_price, E8),
        entered_at=parse_instant(stored.entry_time),
        exited_at=parse_instant(stored.exit_time),
        notional_usd_e6=_notional_e6(stored.entry_price, stored.entry_size),
        gross_usd_e6=gross,
        net_usd_e6=gross - to_units(stored.fees, E6),
        exit_reason="",
    )
    _refuse_impossible(outcome)
    return outcome, SeenFeatures()


def _notional_e6(price: str, size: str) -> int:
    return abs(divide_half_even(to_units(price, E8) * to_units(size, E8), E8 * E8 // E6))


def _features_in_file(names: Sequence[str], stored: dict[str, int] | None, where: str) -> FeatureVector | None:
    if stored is None:
        return None
    strange = [name for name, each in stored.items() if name not in names or abs(each) > MOST_FEATURE]
    if strange:
        raise ValueError(f"{strange[0][:40]!r} in {where} is no field, or beyond ±{MOST_FEATURE}")
    return tuple(stored.get(name) for name in names)


def _snapshot(path: Path) -> ChunkSnapshot:
    content = _checked_bytes(path)
    if "total_trades" in msgspec.json.decode(content, type=dict[str, msgspec.Raw]):
        raise _NoClosedTrade("it sums up outcomes, and is computed again from them")
    # Files of before have the sums as lists, in the order of a record.
    is_old = "parts" in msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    snapshot = msgspec.json.decode(content, type=ChunkSnapshot) if is_old else _snapshot_in_file(content)
    _refuse_strange([snapshot.chunk, *(text for record in snapshot.parts for text in record.key)])
    if snapshot.ended_at < snapshot.started_at:
        raise ValueError("it ends before it begins")
    return snapshot


def _snapshot_in_file(content: bytes) -> ChunkSnapshot:
    stored = msgspec.json.decode(content, type=SnapshotFile)
    tables = ((ASSET, stored.assets), (PROVIDER, stored.providers), (REGIME, stored.regimes))
    parts = [_record_in_file(kind, name, part) for kind, table in tables for name, part in sorted(table.items())]
    span = parse_instant(stored.started_at), parse_instant(stored.ended_at)
    return ChunkSnapshot(stored.chunk, *span, _record_in_file(ALL, "", stored.result), tuple(parts))


def _record_in_file(kind: str, name: str, stored: RecordFile) -> Record:
    sums = stored.trades, stored.wins, stored.sum_ppm, stored.sum_of_squares_ppm2
    return Record(kind, name, *sums, to_units(stored.net_usd, E6))


def _snapshot_file(snapshot: ChunkSnapshot) -> SnapshotFile:
    by_kind = {
        kind: {part.name: _record_file(part) for part in snapshot.parts if part.kind == kind}
        for kind in (PROVIDER, REGIME, ASSET)
    }
    moments = iso_text(snapshot.started_at), iso_text(snapshot.ended_at)
    return SnapshotFile(snapshot.chunk, *moments, _record_file(snapshot.result), *by_kind.values())


def _record_file(record: Record) -> RecordFile:
    sums = record.n, record.wins, record.total_ppm, record.square_ppm2
    return RecordFile(*sums, decimal_text(record.usd_e6, E6, 6))


def _refuse_strange(texts: Iterable[str]) -> None:
    if any(len(text) > _LONGEST or has_hidden_characters(text) for text in texts):
        raise ValueError(f"a text is longer than {_LONGEST} characters or holds invisible characters")


def _refuse_contradictions(stored: OutcomeFile, outcome: Outcome, name: str) -> None:
    if name != f"outcome_{stored.trade_id}.json":
        raise ValueError(f"it is about trade {stored.trade_id!r}, which its name does not say")
    if (stored.outcome == "win") != outcome.is_win:
        raise ValueError(f"it says {stored.outcome!r} and a realized_pnl of {stored.realized_pnl}")
    _refuse_impossible(outcome)


def _refuse_impossible(outcome: Outcome) -> None:
    """ValueError for what no trade can be, wherever it was told."""
    texts = [outcome.trade_id, outcome.symbol, outcome.provider, outcome.regime, outcome.exit_reason]
    texts += [outcome.run_id or "", *(vote.provider for vote in outcome.votes)]
    _refuse_strange([*texts, *(text for pair in outcome.conditions for text in pair)])
    if not _PLAIN_ID.fullmatch(outcome.trade_id):
        raise ValueError(f"{outcome.trade_id[:40]!r} is no id of a trade")
    if outcome.exited_at < outcome.entered_at or outcome.notional_usd_e6 < 0:
        raise ValueError("it ends before it begins, or its notional is negative")
    amounts = (outcome.entry_price_e8, outcome.exit_price_e8, outcome.notional_usd_e6, outcome.gross_usd_e6)
    if any(abs(amount) >= 2**62 for amount in (*amounts, outcome.net_usd_e6)):
        raise ValueError("an amount is longer than 64 bits")


def _confidence(text: str) -> int:
    value = to_units(text, _E4)
    if not 0 <= value <= _E4:
        raise ValueError(f"a confidence of {text} is not between 0 and 1")
    return value


def _performance(records: Mapping[RecordKey, Record], kind: str) -> dict[str, dict[str, int | str]]:
    return {
        record.name: {
            "total_trades": record.n,
            "winning_trades": record.wins,
            "total_pnl": decimal_text(record.usd_e6, E6, 6),
            "mean_result": bps_text(record.mean_bps),
            "win_rate": rate_text(record.win_rate),
        }
        for key, record in sorted(records.items())
        if key[0] == kind
    }


def _free_path(folder: Path, snapshot: ChunkSnapshot) -> Path:
    stamp = iso_text(snapshot.ended_at)[:19].translate({ord("-"): None, ord(":"): None, ord("T"): "_"})
    path, number = folder / f"snapshot_{stamp}.json", 1
    while path.exists():
        number += 1
        path = folder / f"snapshot_{stamp}_{number}.json"
    return path


def _checked_bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has over {MOST_BYTES} bytes")
    return path.read_bytes()


def _write(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
