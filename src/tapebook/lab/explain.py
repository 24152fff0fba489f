"""Explains one decision, and compares two: any two runs, or every shadow decision with the real one of its tick.

`explain_run` gives what the engine was sent, what it replied, what was allowed, and what came of it. What is damaged
or lost is left out with a line in `problems`. `compare_runs` and `compare_shadow` put decisions side by side.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec

from tapebook.archive import Archive
from tapebook.book.decision_queue import StoredReplies
from tapebook.book.pages import RunAsOf, TradeAsOf
from tapebook.book.records import OrderRecord, TradeRecord
from tapebook.book.store import Book
from tapebook.context import CURRENT_VERSION, PACKET_VERSIONS, preview_packet
from tapebook.decision import EngineAnswer
from tapebook.domain import views
from tapebook.domain.packet import Citation, Packet
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.run import Action, DecisionRun
from tapebook.domain.text import sanitise_lines
from tapebook.domain.units import E8, iso_text
from tapebook.errors import Damaged
from tapebook.lab.replay import deployment_of, rebuild_packet
from tapebook.lessons import NO_LESSONS
from tapebook.lessons.notes import Notes
from tapebook.tick.memory import lessons_for, notes_of_lessons
from tapebook.wiring import Rooms

Readable = TypeVar("Readable")


def explain_run(rooms: Rooms, run: DecisionRun) -> views.ExplainedRunView:
    """Everything about one decision. `packet`, `reply` and `sections` are null where they are not kept any more.

    What is damaged or lost is left out, with a line in `problems`: nothing altered is shown as what was said.
    """
    book, problems = rooms.book, list[str]()
    packet = _read_or_note(problems, lambda: rebuild_if_equal(rooms, run))
    kept = _read_or_note(problems, lambda: _archived_text(rooms.archive, run.packet_key))
    reply = _read_or_note(problems, lambda: _archived_text(rooms.archive, run.reply_key))
    lessons_hash, lessons = _lessons_of(rooms.book, rooms.notes, run)
    parts = None if packet is None else [msgspec.to_builtins(part) for part in preview_packet(packet).parts]
    found = packet.citations if packet else ()
    cited = [_citation_view(rooms.archive, each, run, problems=problems) for each in found]
    return {
        **run_record_view(rooms.book, run),
        "lessons_hash": lessons_hash,
        "lessons": lessons,
        "sections": parts,
        "citations": None if packet is None else cited,
        "packet": kept if kept is not None else _sent_text(packet),
        "reply": reply if reply is not None else _paid_reply(rooms.replies, run),
        "reasoning": _read_or_note(problems, lambda: _reasoning(rooms.archive, run)),
        "orders": [known_order_view(known) for known in book.orders_of_run(run.run_id)],
        "fills": [views.fill_view(fill) for fill in book.fills_of_run(run.run_id)],
        "trades": [_trade_view(book, known, run.run_id) for known in book.trades_of_run(run.run_id)],
        "problems": list(dict.fromkeys(problems)),
    }


def run_record_view(book: Book, run: DecisionRun) -> views.RecordedRunView:
    """A decision with its times, what it could have been about, and what became of each action."""
    record = book.run_record(run.run_id)
    if record is None:
        raise Damaged(f"run {run.run_id} has no row; `tapebook rebuild` makes the tables again from the log")
    return listed_run_views(book, [RunAsOf(run, record)])[0]


def listed_run_views(book: Book, found: Sequence[RunAsOf]) -> list[views.RecordedRunView]:
    """Decisions with what was recorded of them by some moment."""
    # Decisions of a page are made by few versions of few agents.
    versions = {(each.run.agent, each.run.agent_version) for each in found}
    profiles = {(name, version): book.agent(name, version=version) for name, version in versions}
    watched = {key: () if profile is None else profile[1].watchlist for key, profile in profiles.items()}
    return [_listed_run_view(each, watched[each.run.agent, each.run.agent_version]) for each in found]


def _listed_run_view(found: RunAsOf, watched: Sequence[str]) -> views.RecordedRunView:
    run, record = found.run, found.record
    view = views.run_view(run)
    for action, became in zip(view["actions"], record.actions, strict=True):
        action["status"], action["order_id"] = became.status, became.order_id
        action["quantity"] = None if became.quantity_e8 is None else became.quantity_e8 / E8
    return {
        **view,
        "candidate_symbols": list(watched),
        "prompt_key": run.packet_key,
        "context_key": run.packet_key,
        "response_key": run.reply_key,
        "started_at": None if record.started_at is None else iso_text(record.started_at),
        "completed_at": None if record.completed_at is None else iso_text(record.completed_at),
        "created_at": iso_text(record.created_at),
        "updated_at": iso_text(record.updated_at),
    }


def _lessons_of(book: Book, notes: Notes, run: DecisionRun) -> tuple[str | None, list[views.LessonView] | None]:
    """The hash that joins a run to the note it was told, and all notes it was told; null when that is not known."""
    if not run.packet_sha256 or "lessons" in run.degraded:
        return None, None
    deployment, seq = deployment_of(book, run), run.watermarks.book
    if "lessons" not in deployment.agent.context.rooms:
        return NO_LESSONS, []
    version = PACKET_VERSIONS.get(run.renderer, CURRENT_VERSION)
    told: list[views.LessonView] = [
        {"agent": note.agent, "note_id": note.note_id, "content_hash": note.content_hash}
        for note in notes_of_lessons(notes, deployment, seq=seq, version=version)
    ]
    return lessons_for(notes, deployment, seq=seq, version=version).content_hash, told


def _read_or_note(problems: list[str], read: Callable[[], Readable | None]) -> Readable | None:
    """What can be read; what is damaged or lost is None and a line among the problems."""
    try:
        return read()
    except Damaged as error:
        problems.append(str(error))
        return None


def known_order_view(known: OrderRecord) -> views.OrderView:
    """An order of the book with the newest word on it."""
    times = known.created_at, known.updated_at
    return views.order_view(
        known.order, deployment=known.deployment, status=known.status, detail=known.detail, times=times
    )


def listed_trade_view(known: TradeAsOf, *, deployment: str) -> views.TradeView:
    """A trade with when it was written, when it was changed last, and what is not known of it."""
    return {
        **views.trade_view(known.trade, deployment=deployment, maker=(known.agent, known.agent_version)),
        "created_at": iso_text(known.created_at),
        "updated_at": iso_text(known.updated_at),
        "lacks": list(known.lacks),
    }


def rebuild_if_equal(rooms: Rooms, run: DecisionRun) -> Packet | None:
    """The packet of a run, if it can be made again byte for byte."""
    if run.renderer not in PACKET_VERSIONS:
        return None
    packet = rebuild_packet(rooms, run)
    return packet if packet.sha256 == run.packet_sha256 else None


def packet_text(archive: Archive, run: DecisionRun, packet: Packet | None) -> str | None:
    """The text the engine was sent: as it was kept, else as it was made again."""
    kept = _read_or_note([], lambda: _archived_text(archive, run.packet_key))
    return kept if kept is not None else _sent_text(packet)


def _sent_text(packet: Packet | None) -> str | None:
    return None if packet is None else f"{packet.system}\n\n{packet.text}"


def _citation_view(
    archive: Archive, citation: Citation, run: DecisionRun, *, problems: list[str]
) -> views.CitedPassageView:
    """A citation with the lines it names, as they were then, and whether an action of the run cites it."""
    key = f"sha256/{citation.content_sha256[:2]}/{citation.content_sha256}"
    content = _read_or_note(problems, lambda: _archived_text(archive, key))
    lines = None if content is None else content.split("\n")[citation.start_line - 1 : citation.end_line]
    cited = any(citation.id in action.cites for action in run.actions)
    text = None if lines is None else "\n".join(lines)
    return cast(views.CitedPassageView, citation.to_dict() | {"text": text, "cited": cited})


def _paid_reply(replies: StoredReplies, run: DecisionRun) -> str | None:
    """What a model that was paid answered, which is in the book also when the archive does not have it."""
    paid = replies.reply_of_run(run.run_id) if run.usage is not None else None
    return None if paid is None else msgspec.json.decode(paid.answer_json, type=EngineAnswer).reply


def _reasoning(archive: Archive, run: DecisionRun) -> str | None:
    """What a model thought beside its reply, without anything that is not seen; None where nothing is kept."""
    found = _archived_text(archive, run.reason_key)
    return None if found is None else "\n".join(sanitise_lines(found))


def _archived_text(archive: Archive, key: str | None) -> str | None:
    """A text of the archive; None when it was never kept, Damaged when it is not there any more."""
    if key is None:
        return None
    content = archive.get(key)
    if content is None:
        raise Damaged(f"the archive has lost {key}; restore it from a backup")
    return content.decode()


def _trade_view(book: Book, known: TradeRecord, run_id: str) -> views.RunTradeView:
    trade = known.trade
    trade_id = trade.state.trade_id if isinstance(trade, ClosedTrade) else trade.trade_id
    recorded = *book.trade_times(trade_id), book.trade_lacks(trade_id)
    view = listed_trade_view(TradeAsOf(trade, known.agent, known.agent_version, *recorded), deployment=known.deployment)
    # What the run did to it, and the times, come first in the JSON.
    times = {"created_at": view["created_at"], "updated_at": view["updated_at"], "lacks": view["lacks"]}
    return cast(views.RunTradeView, {"role": _role_in_trade(known.trade, run_id), **times, **view})


def _role_in_trade(trade: TradeState | ClosedTrade, run_id: str) -> Literal["entry", "exit", "change"]:
    """What a run did to a trade: `entry`, `exit`, or `change` for an add or a part of a close."""
    if isinstance(trade, ClosedTrade):
        return "exit" if trade.exit_run_id == run_id else _role_in_trade(trade.state, run_id)
    return "entry" if trade.entry_run_id == run_id else "change"


class ShadowPair(msgspec.Struct, frozen=True):
    """One tick decided twice. `sections` are those that differ; None when a packet could not be made again."""

    symbol: str
    as_of: str
    main_run: str
    shadow_run: str
    main: str
    shadow: str
    differs: bool
    main_tokens: int
    shadow_tokens: int
    sections: list[str] | None


class ShadowReport(msgspec.Struct, frozen=True):
    """What another context profile would have changed; every count stands beside how many pairs it is of.

    `unpaired` are shadow decisions whose real one is not there; they are in no other figure.
    """

    agent: str
    pairs: int
    differing: int
    unpaired: int
    table: list[dict[str, Any]]
    main_tokens: int
    shadow_tokens: int
    shadow_cost_usd: float
    ticks: list[ShadowPair]

    @property
    def saved_tokens(self) -> int:
        """How many tokens the shadow's packets took less, in sum; negative when they took more."""
        return self.main_tokens - self.shadow_tokens


def compare_shadow(
    rooms: Rooms, agent: str, deployment: str, *, most: int, progress: Callable[[int], None]
) -> ShadowReport:
    """The newest pairs of a deployment, newest first."""
    ticks, costs, unpaired = [], 0, 0
    for shadow_id, main_id in rooms.book.shadow_pairs(deployment, most=most):
        shadow, main = rooms.book.run(shadow_id), rooms.book.run(main_id) if main_id else None
        if shadow is None or main is None:
            unpaired += 1
            continue
        ticks.append(_shadow_pair(rooms, main, shadow))
        costs += shadow.usage.cost_usd_e6 if shadow.usage else 0
        progress(len(ticks))
    counts = Counter((pair.main, pair.shadow) for pair in ticks)
    return ShadowReport(
        agent=agent,
        pairs=len(ticks),
        differing=sum(pair.differs for pair in ticks),
        unpaired=unpaired,
        table=[{"main": main, "shadow": shadow, "pairs": n} for (main, shadow), n in sorted(counts.items())],
        main_tokens=sum(pair.main_tokens for pair in ticks),
        shadow_tokens=sum(pair.shadow_tokens for pair in ticks),
        shadow_cost_usd=costs / 1e6,
        ticks=ticks,
    )


def compare_runs(rooms: Rooms, first: DecisionRun, second: DecisionRun) -> views.RunComparison:
    """Both decisions, and their packets line by line; `diff` is null where a text is not kept any more."""
    before, after = (packet_text(rooms.archive, run, rebuild_if_equal(rooms, run)) for run in (first, second))
    diff = None
    if before is not None and after is not None:
        names = first.run_id, second.run_id
        diff = list(difflib.unified_diff(before.split("\n"), after.split("\n"), *names, lineterm="", n=1))
    return {"first": views.run_view(first), "second": views.run_view(second), "diff": diff}


def decision_label(run: DecisionRun) -> str:
    """A decision in a word or two: `open long`, `hold`, several joined with +; `failed` when there is none."""
    if not run.actions:
        return "failed" if run.error else "nothing"
    return " + ".join(f"{action.action} {action.side}" if action.side else action.action for action in run.actions)


def _shadow_pair(rooms: Rooms, main: DecisionRun, shadow: DecisionRun) -> ShadowPair:
    return ShadowPair(
        symbol=main.symbol,
        as_of=iso_text(main.as_of),
        main_run=main.run_id,
        shadow_run=shadow.run_id,
        main=decision_label(main),
        shadow=decision_label(shadow),
        differs=[_order_terms(action) for action in main.actions]
        != [_order_terms(action) for action in shadow.actions],
        main_tokens=main.tokens,
        shadow_tokens=shadow.tokens,
        sections=_differing_sections(rebuild_if_equal(rooms, main), rebuild_if_equal(rooms, shadow)),
    )


def _order_terms(action: Action) -> tuple[Any, ...]:
    """What an action would do; how sure it is and why is not part of it."""
    asks = (action.notional_usd_e6, action.leverage, action.order_type, action.limit_price_e8)
    return (action.action, action.symbol, action.side, *(asks if action.action in ("open", "adjust") else ()))


def _differing_sections(main: Packet | None, shadow: Packet | None) -> list[str] | None:
    if main is None or shadow is None:
        return None
    before = {section.name: section for section in main.sections}
    after = {section.name: section for section in shadow.sections}
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]
