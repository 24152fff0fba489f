"""What is said of a backtest wherever it is shown: figures, sentences, and the short document that is stored."""

from collections.abc import Sequence

import msgspec

from tapebook.backtest.formats import (
    day_text,
    percent_text,
    plain_text,
    share_text,
    sharpe_text,
    signed_text,
    usd_text,
)
from tapebook.backtest.result import BacktestResult, Baseline, ChunkResult, RandomTurnover, ResultParts
from tapebook.backtest.spending import SpendingTotals
from tapebook.domain.agent import LEARNED_ROOMS
from tapebook.domain.text import plural
from tapebook.domain.units import E6, divide_half_even

FIRST_RANDOM_BASELINE = "random, same turnover"
"""The baseline of the first build, whose sides were random."""

FILL_SENTENCES = {
    "next_open": "at the open of the bar that begins at the slot",
    "bar_close": "at the close of the bar that begins at the slot",
    "worst": "at the worst price of the bar that begins at the slot: its high for a buy, its low for a sell",
}
"""What each fill rule says, where bars are all there is."""


def figure_rows(result: ChunkResult) -> list[tuple[str, str]]:
    """The figures of a chunk or of the whole, by name; one that says nothing is empty."""
    start, end = result.equity_start_usd_e6, result.equity_end_usd_e6
    grown = signed_text((end - start) / start * 100, 2) if start else "0.00"
    net, still = (usd_text(value, signed=True) for value in (result.net_usd_e6, result.open_usd_e6))
    return [
        ("equity", f"{usd_text(start)} to {usd_text(end)} USD ({grown}%)"),
        ("closed", f"{plural(result.trades, 'trade')}, net {net} USD"),
        ("from", _parts_text(result.parts) if result.trades else ""),
        ("open", f"unrealised change {still} USD" if result.open_usd_e6 else ""),
        ("won", share_text(result.win_rate) if result.trades else ""),
        ("Sharpe", sharpe_text(result.sharpe)),
        ("drawdown", f"{usd_text(result.drawdown_usd_e6)} USD, {percent_text(result.drawdown_ppm)} of a peak"),
        ("insured", _insured_text(result)),
        ("held", f"in the market {result.exposure:.0%} of the time"),
    ]


def span_text(result: ChunkResult) -> str:
    """From which day to which."""
    return f"{day_text(result.start)} to {day_text(result.end)}"


def memory_text(result: BacktestResult) -> str:
    """What it remembered, and until when."""
    if result.freeze_at is not None:
        return f"{result.memory} at {day_text(result.freeze_at)}"
    # What `off` meant before there were rooms.
    meant_none = result.memory == "off" and not result.rooms
    return "off (nothing remembered, of its account either)" if meant_none else result.memory


def memory_sentences(result: BacktestResult) -> list[str]:
    """What the memory showed, what it began with, what it could see of the home's texts, and how to judge it."""
    if not result.rooms:
        return []
    on, off = ([use.room for use in result.rooms if use.is_on is state] for state in (True, False))
    said = [f"memory showed {', '.join(on) or 'nothing'}" + (f"; not {', '.join(off)}" if on and off else "")]
    said += [f"{use.room}: {use.held}" for use in result.rooms if use.held]
    source, texts = result.memory_from, result.texts
    if source is not None:
        who = "the live agent" if source.name == "live" else f"backtest {source.name}"
        learned = f"{plural(source.events, 'event')} of {plain_text(source.deployment)}"
        said.append(f"it began with what {who} had learned by {day_text(source.learned_until)} ({learned})")
    if texts is not None:
        dated = f", {texts.dated} of them dated by what they say themselves" if texts.dated else ""
        curated = plural(texts.curated, "curated entry", "curated entries")
        seen = f"{plural(texts.versions, 'version')} of documents{dated}, and {curated}"
        said.append(f"of the home's texts it saw, each from when it was known: {seen}")
    elif {"documents", "horizons"} & set(on):
        said.append("of the home's documents and curated entries none was known before its end")
    if any(room in LEARNED_ROOMS for room in on):
        said.append("whether what was learned helped: compare it with --memory off (`tapebook backtests compare`)")
    return said


def fill_sentence(result: BacktestResult) -> str:
    """Where orders filled; this depends on the rule only where no midpoints were recorded."""
    return f"fill {result.fill}: on bars alone, orders filled {FILL_SENTENCES[result.fill]}"


def stale_sentences(agent: str, stale: Sequence[str]) -> list[str]:
    """What a reader must know of an agent's backtest whose inputs are others by now; nothing of a current one."""
    if not stale:
        return []
    again = f"run `tapebook backtest {plain_text(agent)}` again for a current result"
    return [f"made with other {' and '.join(stale)} than now; {again}"]


def input_rows(result: BacktestResult) -> list[tuple[str, str]]:
    """What it was made of, by name."""
    made = result.inputs
    if made is None:
        return []
    digests = [("data sha256", made.data_sha256), ("code sha256", made.code_sha256)]
    return [*digests, ("version", f"tapebook {made.version}"), ("model", made.model)]


def random_turnover_sentences(result: BacktestResult) -> list[str]:
    """Where the closed trades stand among the same trades at random moments, what was held, and the bound."""
    said = [
        sentence
        for each in result.baselines
        if each.luck is not None
        for sentence in _turnover_sentences(each, each.luck)
    ]
    held = ", ".join(f"{plain_text(symbol)} {usd_text(value, signed=True)}" for symbol, value in result.exposures)
    said += [f"on average over all of the time it held {held} USD"] if held else []
    if isinstance(result.bound_usd_e6, int):
        said.append(f"trust in its members: at most {usd_text(result.bound_usd_e6)} USD behind doing nothing")
    return said


def summary_text(result: BacktestResult) -> str:
    """The whole as a short document, for those who look for backtests like this one later; at most sixty lines."""
    total, last = result.total, result.chunks[-1]
    head = [
        f"# Backtest {result.id}: {plain_text(result.agent)}",
        "",
        f"- agent: {plain_text(result.agent)} version {result.agent_version}, engine {result.engine}",
        f"- strategy: {plain_text(result.strategy)[:400] or 'none written'}",
        f"- range: {span_text(total)}; symbols {', '.join(result.symbols)}; memory {memory_text(result)}",
        f"- {fill_sentence(result)}",
        *(f"- {sentence}" for sentence in memory_sentences(result)),
        *(f"- {name}: {value}" for name, value in figure_rows(total) if value),
        *(f"- {sentence}" for sentence in random_turnover_sentences(result)),
        *(
            f"- {each.name}: net {usd_text(each.net_usd_e6, signed=True)} USD"
            for each in result.baselines
            if not each.luck
        ),
    ]
    chunks = [f"- {plain_text(each.name)}: {_chunk_sentence(each)}" for each in result.chunks[-12:]]
    lessons = [f"- {plain_text(lesson)}" for lesson in last.lessons] or ["- none yet"]
    notes = [f"- {plain_text(note)}" for note in result.notes]
    body = [*head, "", "## Chunks", *chunks, "", f"## Lessons at the end ({last.lessons_hash or 'no note'})", *lessons]
    return "\n".join([*body, "", "## Notes", *notes][:60]) + "\n"


def spending_text(spent: SpendingTotals | None) -> str:
    """What models cost, in one line; empty when none was asked."""
    if not spent:
        return ""
    calls, tokens = plural(spent.calls, "call"), plural(spent.input_tokens, "token")
    told = f"{usd_text(spent.cost_usd_e6)} USD for {calls}, {tokens} in, {spent.output_tokens:,} out"
    if not spent.reused:
        return told
    return (
        f"{told}; {plural(spent.reused, 'answer')} of other backtests reused, saving {usd_text(spent.saved_usd_e6)} USD"
    )


def _turnover_sentences(each: Baseline, luck: RandomTurnover) -> list[str]:
    # The first build threw the sides too.
    of = (
        "of the same turnover" if each.name == FIRST_RANDOM_BASELINE else "with the same sides, sizes and holding times"
    )
    low, high = usd_text(luck.low_usd_e6, signed=True), usd_text(luck.high_usd_e6, signed=True)
    return [
        f"closed trades: better than {share_text(luck.beaten)} of random replays {of}",
        f"90 of 100 replays end between {low} and {high} USD",
    ]


def _insured_text(result: ChunkResult) -> str:
    paid = result.insurance_usd_e6
    return f"{usd_text(paid)} USD of losses beyond the margin, which the drawdown counts" if paid else ""


def _parts_text(parts: ResultParts) -> str:
    named = msgspec.structs.asdict(parts).items()
    return ", ".join(f"{name.removesuffix('_usd_e6')} {usd_text(value, signed=True)}" for name, value in named)


def _chunk_sentence(chunk: ChunkResult) -> str:
    change = divide_half_even(chunk.change_usd_e6 * E6, chunk.equity_start_usd_e6) if chunk.equity_start_usd_e6 else 0
    return (
        f"equity {signed_text(change / 10_000, 2)}%, {plural(chunk.trades, 'trade')}, won {share_text(chunk.win_rate)}"
    )
