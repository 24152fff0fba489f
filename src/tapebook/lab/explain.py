"""Why a decision was what it was: what the engine was told, what it said, what was allowed, and what came of it."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tapebook import views
from tapebook.book.store import Book, KnownOrder, KnownTrade
from tapebook.context import VERSIONS, preview
from tapebook.decision import Answer
from tapebook.domain.citation import Citation
from tapebook.domain.instants import iso
from tapebook.domain.money import E8
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import sanitise_lines
from tapebook.domain.trade import ClosedTrade, TradeState
from tapebook.errors import Damaged
from tapebook.lab.replay import deployment_of, rebuild
from tapebook.lessons import NO_LESSONS
from tapebook.loop.skills import lessons_of, notes_told
from tapebook.wiring import Rooms

Found = TypeVar("Found")


def explain(rooms: Rooms, run: DecisionRun) -> views.View:
    """Everything about one decision. `packet`, `reply` and `sections` are null where they are not kept any more.

    What is damaged or lost is left out, with a line in `problems`: nothing altered is shown as what was said.
    """
    book, problems = rooms.book, list[str]()
    packet = _readable(problems, lambda: rebuilt(rooms, run))
    kept = _readable(problems, lambda: _kept(rooms, run.packet_key))
    reply = _readable(problems, lambda: _kept(rooms, run.reply_key))
    return recorded_view(rooms, run) | _lessons_view(rooms, run) | {
        "sections": None if packet is None else [msgspec.to_builtins(part) for part in preview(packet).parts],
        "citations": None
        if packet is None
        else [_citation_view(rooms, each, run, problems=problems) for each in packet.citations],
        "packet": kept if kept is not None else _text(packet),
        "reply": reply if reply is not None else _paid_reply(rooms, run),
        "reasoning": _readable(problems, lambda: _reasoning(rooms, run)),
        "orders": [order_view(known) for known in book.orders_of_run(run.run_id)],
        "fills": [views.fill_view(fill) for fill in book.fills_of_run(run.run_id)],
        "trades": [_trade_view(book, known, run.run_id) for known in book.trades_of_run(run.run_id)],
        "problems": list(dict.fromkeys(problems)),
    }


def recorded_view(rooms: Rooms, run: DecisionRun) -> views.View:
    """A decision with its times, what it could have been about, and what became of each action."""
    record, profile = rooms.book.run_record(run.run_id), rooms.book.agent(run.agent, version=run.agent_version)
    view = views.run_view(run) | {
        "candidate_symbols": list(profile[1].watchlist) if profile else [],
        "prompt_key": run.packet_key,
        "context_key": run.packet_key,
        "response_key": run.reply_key,
    }
    if record is None:
        return view
    names = ("started_at", "completed_at", "created_at", "updated_at")
    moments = {name: getattr(record, name) for name in names}
    became = [
        {
            "status": each.status,
            "order_id": each.order_id,
            "quantity": None if each.quantity_e8 is None else each.quantity_e8 / E8,
        }
        for each in record.actions
    ]
    actions = [action | outcome for action, outcome in zip(view["actions"], became, strict=True)]
    return view | {name: at if at is None else iso(at) for name, at in moments.items()} | {"actions": actions}


def _lessons_view(rooms: Rooms, run: DecisionRun) -> views.View:
    """The hash that joins a run to the note it was told, and all notes it was told; null when that is not known."""
    if not run.packet_sha256 or "lessons" in run.degraded:
        return {"lessons_hash": None, "lessons": None}
    deployment, seq = deployment_of(rooms, run), run.watermarks.book
    if not deployment.agent.context.memory:
        return {"lessons_hash": NO_LESSONS, "lessons": []}
    told = [
        {"agent": note.agent, "note_id": note.note_id, "content_hash": note.content_hash}
        for note in notes_told(rooms, deployment, seq=seq)
    ]
    return {"lessons_hash": lessons_of(rooms, deployment, seq=seq).content_hash, "lessons": told}


def _readable(problems: list[str], read: Callable[[], Found | None]) -> Found | None:
    """What can be read; what is damaged or lost is None and a line among the problems."""
    try:
        return read()
    except Damaged as error:
        problems.append(str(error))
        return None


def order_view(known: KnownOrder) -> views.View:
    """An order of the book with the newest word on it."""
    view = views.order_view(known.order, deployment=known.deployment, status=known.status, detail=known.detail)
    return view | {"created_at": iso(known.created_at), "updated_at": iso(known.updated_at)}


def trade_times(book: Book, trade_id: str) -> views.View:
    """When a trade was written, when it was changed last, and what is not known of it."""
    created, updated = book.trade_times(trade_id)
    lacks = list(book.trade_lacks(trade_id))
    return {"created_at": iso(created), "updated_at": iso(updated), "lacks": lacks}


def rebuilt(rooms: Rooms, run: DecisionRun) -> Packet | None:
    """The packet of a run, if it can be made again byte for byte."""
    if run.renderer not in VERSIONS:
        return None
    packet = rebuild(rooms, run)
    return packet if packet.sha256 == run.packet_sha256 else None


def packet_text(rooms: Rooms, run: DecisionRun, packet: Packet | None) -> str | None:
    """The text the engine was sent: as it was kept, else as it was made again."""
    kept = _readable([], lambda: _kept(rooms, run.packet_key))
    return kept if kept is not None else _text(packet)


def _text(packet: Packet | None) -> str | None:
    return None if packet is None else f"{packet.system}\n\n{packet.text}"


def _citation_view(rooms: Rooms, citation: Citation, run: DecisionRun, *, problems: list[str]) -> views.View:
    """A citation with the lines it names, as they were then, and whether an action of the run cites it."""
    key = f"sha256/{citation.content_sha256[:2]}/{citation.content_sha256}"
    content = _readable(problems, lambda: _kept(rooms, key))
    lines = None if content is None else content.split("\n")[citation.start_line - 1 : citation.end_line]
    cited = any(citation.id in action.cites for action in run.actions)
    return citation.to_dict() | {"text": None if lines is None else "\n".join(lines), "cited": cited}


def _paid_reply(rooms: Rooms, run: DecisionRun) -> str | None:
    """What a model that was paid answered, which is in the book also when the archive does not have it."""
    paid = rooms.replies.of_run(run.run_id) if run.usage is not None else None
    return None if paid is None else msgspec.json.decode(paid.answer_json, type=Answer).reply


def _reasoning(rooms: Rooms, run: DecisionRun) -> str | None:
    """What a model thought beside its reply, without anything that is not seen; None where nothing is kept."""
    found = _kept(rooms, run.reason_key)
    return None if found is None else "\n".join(sanitise_lines(found))


def _kept(rooms: Rooms, key: str | None) -> str | None:
    """A text of the archive; None when it was never kept, Damaged when it is not there any more."""
    if key is None:
        return None
    content = rooms.archive.get(key)
    if content is None:
        raise Damaged(f"the archive has lost {key}; restore it from a backup")
    return content.decode()


def _trade_view(book: Book, known: KnownTrade, run_id: str) -> views.View:
    state = known.trade.state if isinstance(known.trade, ClosedTrade) else known.trade
    role = {"role": _role(known.trade, run_id)} | trade_times(book, state.trade_id)
    return role | views.trade_view(known.trade, deployment=known.deployment, maker=(known.agent, known.agent_version))


def _role(trade: TradeState | ClosedTrade, run_id: str) -> str:
    """What a run did to a trade: `entry`, `exit`, or `change` for an add or a part of a close."""
    if isinstance(trade, ClosedTrade):
        return "exit" if trade.exit_run_id == run_id else _role(trade.state, run_id)
    return "entry" if trade.entry_run_id == run_id else "change"
