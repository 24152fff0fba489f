"""One method per tool: asks the façade, chooses what is told, and fits it into an answer.

Texts that people, models or markets wrote go out sanitised and inside a field of their own: they are data. Money is
dollars, instants are ISO-8601 text, rates are shares between 0 and 1 and stand beside their n.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from mcp.types import CallToolResult
from pydantic import Field

from tapebook.api.bots import lives_elsewhere, packet_text_for_bots
from tapebook.domain.order import Side
from tapebook.domain.text import plural, short_line
from tapebook.domain.units import iso_text
from tapebook.errors import BadInput, UnknownName
from tapebook.surfaces.mcp.answers import (
    Cursor,
    FetchedDocument,
    Receipt,
    Rows,
    SearchHits,
    TextPage,
    clean_text,
    fit_document,
    fit_rows,
    fit_text,
    shorten,
    tool_result,
)

if TYPE_CHECKING:
    from tapebook.api.app import Tapebook

RowsResult = Annotated[CallToolResult, Rows]
TextResult = Annotated[CallToolResult, TextPage]
HitsResult = Annotated[CallToolResult, SearchHits]
DocumentResult = Annotated[CallToolResult, FetchedDocument]
ReceiptResult = Annotated[CallToolResult, Receipt]

Limit = Annotated[int, Field(ge=1, le=100)]

Given = TypeVar("Given")

_ALL = 1_000_000
_REASON_CHARS = 200
_HITS = 8
DOCUMENT_URI = "tapebook://documents/"
RUN_URI = "tapebook://runs/"
Part = Literal["overview", "packet", "reply", "reasoning"]
Entry = Literal["journal", "learning", "note", "manual"]
Told = Literal["price", "decision", "fill", "position"]


class MemoryTools:
    """The tools of a server; `home` gives the façade that the caller of a request may use."""

    def __init__(self, home: "Callable[[], Tapebook]") -> None:
        self._home = home

    def query_trade_history(
        self,
        *,
        agent: str = "",
        symbol: str = "",
        status: Literal["", "open", "closed"] = "",
        as_of: str = "",
        limit: Limit = 20,
        cursor: str = "",
    ) -> RowsResult:
        """Round trips of an agent, open first, then newest: prices, net, reasons, regime."""
        tb, name = self._home(), self._agent(agent)
        place = self._cursor(cursor, as_of)
        trades = tb.trades(name, status=status or None, most=_ALL, as_of=place.as_of)
        rows = [_trade_row(each) for each in trades if symbol in ("", each["symbol"])]
        won = sum(each["net_usd"] > 0 for each in rows if each["status"] == "closed")
        ended = sum(each["status"] == "closed" for each in rows)
        net = sum(each["net_usd"] for each in rows)
        note = f"{name} as of {iso_text(place.as_of)}: {won} of {ended} closed won, net {net:+.2f} USD in all"
        return tool_result(fit_rows(rows, cursor=place, note=note, most=limit))

    def explain_decision(
        self, *, run_id: str = "", agent: str = "", part: Part = "overview", cursor: str = ""
    ) -> TextResult:
        """Why a decision (else the newest) was made: actions, verdict, citations, trades; or one text of it."""
        tb = self._home()
        if not run_id:
            name = self._agent(agent)
            newest = tb.runs(name, most=1)
            if not newest:
                raise UnknownName(f"{name} has made no decision yet")
            run_id = newest[0]["run_id"]
        run, place = tb.run(run_id), self._cursor(cursor, "")
        text = "" if part == "overview" else clean_text(run[part])
        if part != "overview" and not text:
            raise UnknownName(f"run {run['run_id']} has no {part}: it was not kept, or there never was one")
        return tool_result(fit_text(text, cursor=place, about=_run_facts(run) if part == "overview" else {}))

    def market_context(
        self, *, symbols: Sequence[str] = (), agent: str = "", as_of: str = "", cursor: str = ""
    ) -> RowsResult:
        """Price, liquidity, funding, volatility, prediction markets of symbols, or of those an agent watches."""
        tb, place = self._home(), self._cursor(cursor, as_of)
        name = None if symbols and not agent else self._agent(agent)
        found = tb.market_context(symbols, agent=name, as_of=place.as_of)
        rows = [{"symbol": symbol, **cast(Mapping[str, Any], view)} for symbol, view in found.items()]
        return tool_result(fit_rows(rows, cursor=place, note=f"as of {iso_text(place.as_of)}"))

    def context_packet(
        self, *, symbol: str, agent: str = "", section: str = "", as_of: str = "", cursor: str = ""
    ) -> TextResult:
        """What an agent is told about a symbol, now or at a past moment; about.ticket is what `record` needs."""
        tb, name, place = self._home(), self._agent(agent), self._cursor(cursor, as_of)
        is_bot, ticket = lives_elsewhere(tb.agent(name)), None
        if is_bot and not as_of and not cursor:
            offer = tb.offer_decision(name, symbol)
            packet, ticket, place = offer.packet, offer.ticket, Cursor(0, offer.packet.as_of)
        else:
            packet = tb.context(name, symbol, as_of=place.as_of)
        text = packet_text_for_bots(packet) if is_bot else f"{packet.system}\n\n{packet.text}"
        sections = {each.name: packet.section_tokens[each.name] for each in packet.sections}
        if section:
            text = _section_text(packet.text, section, [(each.name, each.title) for each in packet.sections])
        about = {"agent": name, "symbol": symbol, "as_of": iso_text(packet.as_of), "tokens": packet.tokens}
        about |= {"sha256": packet.sha256, "sections": sections} | ({"ticket": ticket} if ticket else {})
        return tool_result(fit_text(text, cursor=place, about=about))

    def search(self, query: str) -> HitsResult:
        """Places in trades, lessons, journals, manuals and documents."""
        found = self._home().recall.search(query, limit=_HITS)
        results = [
            {
                "id": f"{each.path}#L{each.start_line}-{each.end_line}",
                "title": short_line(each.snippet.split("\n", 1)[0], 100),
                "url": f"{DOCUMENT_URI}{each.path}#L{each.start_line}-{each.end_line}",
                "text": shorten({"text": clean_text(each.snippet)}, 600)["text"],
                "score": each.score,
            }
            for each in found
        ]
        hits = SearchHits(total=len(results), returned=len(results), next_cursor=None, results=results)
        if not results:
            hits.results = [{"id": "", "title": found.why, "url": "", "text": ""}]
        return tool_result(hits)

    def fetch(self, id: str) -> DocumentResult:
        """The document of a search result, or a decision by run id; next_cursor is the id of the rest."""
        base, _, place = id.rpartition("@")
        base, offset = (base, int(place)) if base and place.isdecimal() else (id, 0)
        path, _, lines = base.partition("#L")
        document = self._decision_document(base) if "/" not in path and "." not in path else None
        if document is None:
            found = self._home().recall.document(path)
            text = clean_text(found.text)
            document = FetchedDocument(
                total=len(text),
                returned=0,
                next_cursor=None,
                id=id,
                title=short_line(text.split("\n", 1)[0], 100),
                text=text,
                url=f"{DOCUMENT_URI}{path}",
                metadata={"kind": found.kind, "sha256": found.content_sha256} | ({"lines": lines} if lines else {}),
            )
        return tool_result(fit_document(document, offset=offset, base_id=base))

    def horizons(self, *, agent: str = "", layer: str = "", as_of: str = "", cursor: str = "") -> RowsResult:
        """What day, week, month, quarter, year and all time came to; or one layer, L1 to L7 (now)."""
        place = self._cursor(cursor, as_of)
        found = self._home().horizons.show(agent or None, layer=layer or None, as_of=place.as_of)
        rows = [{name: value for name, value in each.items() if name != "scope"} for each in found]
        return tool_result(fit_rows(rows, cursor=place, note=f"{agent or 'all agents'} as of {iso_text(place.as_of)}"))

    def lessons(self, agent: str = "", cursor: str = "") -> RowsResult:
        """Lessons, their evidence and how later trades judged them; note is what the agent is told."""
        tb, name, place = self._home(), self._agent(agent), self._cursor(cursor, "")
        active = next((each for each in tb.lessons(name, most=20) if each["status"] == "active"), None)
        rows = [_lesson_row(each) for each in tb.hypotheses(name)["lessons"]]
        note = clean_text(active["lessons_text"]) if active else f"{name} has no note yet"
        return tool_result(fit_rows(rows, cursor=place, note=shorten({"note": note}, 2_400)["note"]))

    def experience(self, agent: str = "", as_of: str = "", cursor: str = "") -> RowsResult:
        """How providers, regimes, symbols and confidences did: n, win rate with interval, net, trust."""
        tb, name, place = self._home(), self._agent(agent), self._cursor(cursor, as_of)
        report = tb.experience.show(name, as_of=place.as_of)
        shown = cast(Mapping[str, Any], report)
        rows = [_record_row(kind, each) for kind in _RECORD_KINDS for each in shown[kind]]
        counts = f"{plural(report['outcomes'], 'outcome')}, {plural(report['situations'], 'situation')}"
        return tool_result(fit_rows(rows, cursor=place, note=f"{name} as of {report['as_of']}: {counts}"))

    def backtests(self, id: str = "", cursor: str = "") -> RowsResult:
        """Backtests; or one by id: its total, baselines and chunks."""
        tb, place = self._home(), self._cursor(cursor, "")
        if not id:
            listed = [{name: value for name, value in each.items() if value is not None} for each in tb.backtests.all()]
            return tool_result(fit_rows(listed, cursor=place))
        shown = tb.backtests.show(id)
        rows = [{"part": "total", **shown["total"]}] if shown["total"] else []
        rows += [{"part": "baseline", **each} for each in shown["baselines"] or ()]
        rows += [{"part": "chunk", **each} for each in shown["chunks"]]
        rows = [_without(each, "daily", "daily_usd", "chunks_usd") for each in rows]
        return tool_result(fit_rows(rows, cursor=place, note=f"backtest {shown['id']}: {shown['status']}"))

    def append_journal(self, *, text: str, agent: str = "", kind: Entry = "journal", run_id: str = "") -> ReceiptResult:
        """Appends to an agent's journal, learnings or notes; a manual is only proposed."""
        tb, name = self._home(), self._agent(agent)
        if kind == "manual":
            proposed = tb.recall.propose(name, text, run=run_id or None, by="mcp").proposal
            detail = f"proposed: it stands once a person runs `tapebook recall approve {proposed.proposal_id}`"
            return _receipt(proposed.proposal_id, "proposed", detail)
        entry = tb.recall.append(kind, name, text, run=run_id or None, by="mcp")
        return _receipt(entry.entry_id, "appended", f"{entry.path}, sha256 {entry.sha256}")

    def record(
        self,
        *,
        what: Told,
        symbol: str,
        agent: str = "",
        ticket: str = "",
        action: Literal["open", "close", "adjust", "hold"] = "hold",
        side: Literal["", "long", "short", "buy", "sell"] = "",
        notional_usd: float | None = None,
        leverage: int = 1,
        reason: str = "",
        confidence: float = 0.5,
        provider: str = "",
        cites: Sequence[str] = (),
        id: str = "",
        size: float | None = None,
        price: float | None = None,
        fee_usd: float = 0.0,
        at: str = "",
        run_id: str = "",
    ) -> ReceiptResult:
        """What a bot that trades elsewhere saw and did; told twice, kept once. No order is sent.

        decision: ticket, action, side long/short, notional_usd, reason, confidence, provider.
        fill: id, side buy/sell, size, price, run_id. position: id, size (short below zero), price.
        """
        tb = self._home()
        if what == "price":
            seen = _require_value("price", price)
            seq = tb.observe(symbol, prices=[(at, seen)] if at else seen)
            tb.learn()
            return _receipt(f"tape {seq}", "observed", f"{symbol} at {seen}")
        name = self._agent(agent)
        if what == "decision":
            if side in ("buy", "sell"):
                raise BadInput("a decision has the side long or short; buy and sell are sides of fills")
            run = tb.record_decision(
                _require_value("ticket", ticket or None),
                action,
                side=cast(Literal["long", "short"], side) if side else None,
                notional_usd=notional_usd,
                leverage=leverage,
                reason=reason,
                confidence=confidence,
                provider=provider or None,
                cites=cites,
            )
            receipt = _receipt(
                run["run_id"], run["status"], "the verdict of the guard is advice", actions=run["actions"]
            )
        else:
            if (what == "fill") != (side in ("buy", "sell")):
                raise BadInput(
                    "a fill has the side buy or sell, a position has none: its size is below zero when short"
                )
            told = {"id": _require_value("id", id or None), "size": _require_value("size", size), "at": at or None}
            told["price"] = _require_value("price", price)
            receipt = self._record_trade(name, symbol, told, side=side, fee_usd=fee_usd, run=run_id or None)
        # What has ended is learned from at once, so that the next packet knows it.
        tb.learn(name)
        return receipt

    def _record_trade(
        self, agent: str, symbol: str, told: dict[str, Any], *, side: str, fee_usd: float, run: str | None
    ) -> CallToolResult:
        """Books a fill, or without a side what is missing to a position."""
        tb = self._home()
        if side in ("buy", "sell"):
            fill = tb.record_fill(agent, symbol, side=cast(Side, side), fee_usd=fee_usd, run=run, **told)
            return _receipt(fill["fill_id"], "booked", f"{fill['side']} {fill['size']} at {fill['price']}", fill=fill)
        moved = tb.record_position(agent, symbol, **told)
        detail = "the book holds so much already" if moved is None else f"{moved['side']} {moved['size']} was missing"
        return _receipt(told["id"], "unchanged" if moved is None else "booked", detail)

    def _decision_document(self, run_id: str) -> FetchedDocument | None:
        run = self._home().run(run_id)
        text = clean_text(run["packet"]) + "\n\n# Reply\n" + clean_text(run["reply"])
        facts = shorten(_run_facts(run), 2_000)
        title = f"{run['agent']} {run['symbol']} {run['as_of']}: {run['status']}"
        return FetchedDocument(
            total=len(text),
            returned=0,
            next_cursor=None,
            id=run_id,
            title=title,
            text=text,
            url=f"{RUN_URI}{run['run_id']}",
            metadata=facts,
        )

    def _agent(self, given: str) -> str:
        """The agent that is named, or the only one there is."""
        if given:
            return given
        names = [each["name"] for each in self._home().agents()]
        if len(names) == 1:
            return names[0]
        raise BadInput(f"name an agent: {', '.join(names)}" if names else "there is no agent in this home yet")

    def _cursor(self, cursor: str, as_of: str) -> Cursor:
        """Where to go on, or the beginning as of a moment."""
        if cursor:
            return Cursor.parse(cursor)
        return Cursor(0, self._home().now(as_of or None))


_RECORD_KINDS = ("providers", "regimes", "assets", "calibration")


def _require_value(name: str, value: Given | None) -> Given:
    if value is None:
        raise BadInput(f"{name} is missing: give it")
    return value


def _receipt(id: str, status: str, detail: str, **about: Any) -> CallToolResult:
    return tool_result(Receipt(id=id, status=status, detail=detail, about=shorten(about, 3_000)))


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _trade_row(trade: Mapping[str, Any]) -> dict[str, Any]:
    """A round trip in the words of a ledger."""
    return {
        "id": trade["id"],
        "symbol": trade["symbol"],
        "side": trade["side"],
        "status": trade["status"],
        "entered": trade["entry_tick_at"],
        "exited": trade["exit_tick_at"],
        "entry_price": trade["entry_price"],
        "exit_price": trade["exit_price"],
        "size_usd": round(trade["entry_size_usd"], 2),
        "net_usd": round(trade["net_pnl_usd"], 2),
        "mfe_usd": round(trade["mfe_usd"], 2),
        "mae_usd": round(trade["mae_usd"], 2),
        "regime": trade["entry_regime_tag"],
        "entry_reason": short_line(trade["entry_reason"], _REASON_CHARS),
        "exit_reason": short_line(trade["exit_reason"] or "", _REASON_CHARS),
        "entry_run": trade["entry_snapshot_id"],
        "exit_run": trade["exit_snapshot_id"],
    }


def _run_facts(run: Mapping[str, Any]) -> dict[str, Any]:
    """A decision without its texts."""
    acts = ("action", "side", "notional_usd", "leverage", "confidence", "verdict", "rule", "detail", "cites", "status")
    fills = ("fill_id", "side", "size", "price", "fee_usd", "happened_at")
    return {
        **{name: run[name] for name in ("run_id", "agent", "symbol", "as_of", "status", "engine", "error")},
        "actions": [
            {**{name: each.get(name) for name in acts}, "reason": short_line(each["reason"], 2 * _REASON_CHARS)}
            for each in run["actions"]
        ],
        "citations": [
            {"id": each["id"], "path": f"{each['path']}#L{each['startLine']}-{each['endLine']}", "cited": each["cited"]}
            for each in run["citations"] or ()
        ],
        "lessons": [each["note_id"] for each in run["lessons"] or ()],
        "trades": [
            {"id": each["id"], "role": each["role"], "net_usd": round(each["net_pnl_usd"], 2)} for each in run["trades"]
        ],
        "fills": [{name: each[name] for name in fills} for each in run["fills"]],
        "sections": {each["name"]: each["tokens"] for each in run["sections"] or ()},
        "packet_sha256": run["packet_sha256"],
        "problems": run["problems"],
    }


def _lesson_row(lesson: Mapping[str, Any]) -> dict[str, Any]:
    names = ("lesson_id", "slot", "status", "n", "rest_n", "effect_bps", "low_bps", "high_bps", "registered_at")
    later = lesson["later"]
    return {
        "statement": short_line(lesson["statement"], 2 * _REASON_CHARS),
        **{name: lesson[name] for name in names},
        "later": {name: later[name] for name in ("trades", "effect_bps", "capital_for", "capital_against")},
    }


def _record_row(kind: str, record: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("name", "confidence", "n", "won", "net_usd", "win_rate", "mean_bps", "weight", "believed")
    return {"kind": kind, **{name: record[name] for name in shown if record.get(name) is not None}}


def _section_text(text: str, wanted: str, sections: Sequence[tuple[str, str]]) -> str:
    """A section of a packet as it stands in the text."""
    for name, title in sections:
        if wanted in (name, title):
            begins = text.find(f"## {title}")
            ends = text.find("\n## ", begins + 1)
            return text[max(begins, 0) : ends if ends > 0 else None]
    raise UnknownName(f"the packet has no section {wanted!r}; it has: {', '.join(name for name, _ in sections)}")
