"""Decisions: the list, and the why of one: what was told, said, allowed and done, and what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from tapebook.api.app import Tapebook
from tapebook.domain.text import plural
from tapebook.domain.units import HOUR, iso_text, parse_instant
from tapebook.errors import TapebookError
from tapebook.surfaces.web.frame import PageFrame, action_button, draw_or_say, page, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    Markup,
    alert,
    badge,
    bar,
    empty,
    figures,
    interval,
    key_values,
    label,
    link,
    moment,
    number,
    picks,
    price,
    sheet,
    side_badge,
    signed_usd,
    size,
    table,
    tag,
    text_block,
    together,
    usd,
)
from tapebook.surfaces.web.overview import decisions_table, run_state

# About two screens; older ones are a link away.
_LISTED = 40
_PARTS = [Cells("section"), Cells("tokens", "num"), Cells("of its cap"), Cells("rows", "num"), Cells("dropped", "num")]
_VOTES = [Cells("member"), Cells("vote"), Cells("confidence", "num"), Cells("weight", "num"), Cells("reason", "long")]
_ORDERS = [Cells("order"), Cells("size", "num"), Cells("limit", "num"), Cells("status"), Cells("detail")]
_FILLS = [
    Cells("filled at", "tb-fit"),
    Cells("side"),
    Cells("size", "num"),
    Cells("price", "num"),
    Cells("fee USD", "num"),
]


def register(book: Tapebook) -> None:
    """Adds the pages."""

    @page("/decisions")
    async def decisions(agent: str = "", before: str = "") -> None:
        with page_frame(
            book, "/decisions", title="Decisions", lead="Newest first; each opens with its reasons"
        ) as frame:
            # An older page does not change, so it asks for nothing again.
            if before:
                await draw_or_say(lambda: _list(frame, agent or None, before))
            else:
                await frame.live(lambda: _list(frame, agent or None, None), streams=lambda stream: stream != "tape")

    @page("/decisions/{run_id}")
    async def decision(run_id: str) -> None:
        with page_frame(book, "/decisions", title="Decision", lead=tag("code", run_id)) as frame:
            await draw_or_say(lambda: _why(frame, run_id))


async def _list(frame: PageFrame, agent: str | None, before: str | None) -> None:
    names = [each["name"] for each in await frame.read(frame.book.agents)]
    choices = [("all", "/decisions", agent is None)]
    choices += [(name, f"/decisions?{query_of(agent=name)}", name == agent) for name in names]
    runs = await frame.read(frame.book.runs, agent, most=_LISTED, before=before)
    frame.html(picks("Agent", choices))
    older = link("older decisions", "decisions", query=query_of(agent=agent, before=runs.next)) if runs.next else None
    frame.html(sheet("Decisions", decisions_table(runs), note=older, flush=True))


async def _why(frame: PageFrame, run_id: str) -> None:
    run = await frame.read(frame.book.run, run_id)
    frame.html(_headline(run))
    frame.html(_numbers(run))
    if run["problems"]:
        frame.html(alert("Not all of it can be read", run["problems"], "bad"))
    with ui.element("div").classes("tb-columns"):
        with ui.element("div"):
            frame.html(_actions(run), _votes(run), _outcome(run), _citations(run))
        with ui.element("div"):
            _replay_sheet(frame, run)
            await _packet_sheet(frame, run)
            frame.html(_parts(run), _replies(run))


def decision_parts(run: Mapping[str, Any]) -> list[Markup]:
    """All of a decision that needs no home: for one that was made elsewhere, such as in a backtest."""
    packet = (
        text_block(run["packet"], tall=True) if run["packet"] is not None else empty("Not kept", "Its text is gone.")
    )
    left = [_actions(run), _votes(run), _outcome(run), _citations(run)]
    right = [sheet("Packet as seen", packet), _parts(run), _replies(run)]
    columns = tag("div", tag("div", left, cls="tb-stack"), tag("div", right, cls="tb-stack"), cls="tb-columns")
    return [_headline(run), _numbers(run), columns]


def _headline(run: Mapping[str, Any]) -> Markup:
    said = [_action_sentence(action) for action in run["actions"]] or [run["error"] or "No decision"]
    who = [link(run["agent"], "agents", run["agent"]), f", version {run['agent_version']}, on {run['symbol']}, as of "]
    # What sets a decision apart stands beside what came of it.
    marks = [badge("dry run", "warn")] if run["dry"] else []
    marks += [badge("shadow")] if run["trigger"] == "shadow" else []
    marks += [badge(f"without {each}", "warn") for each in run["degraded"]]
    return sheet(
        "; ".join(said),
        key_values(
            {
                "agent": together(who, moment(run["as_of"], seconds=True), " UTC"),
                "engine": together(run["engine"], f", triggered by {run['trigger']}"),
                "status": together(run_state(run), " ", marks),
                **({"note": run["note"]} if run["note"] else {}),
                **({"error": run["error"]} if run["error"] else {}),
                **({"degraded": "; ".join(run["degraded_causes"])} if run["degraded_causes"] else {}),
            }
        ),
    )


def _action_sentence(action: Mapping[str, Any]) -> str:
    words = [action["action"].capitalize(), action["side"] or "", action["symbol"]]
    if action["action"] in ("open", "adjust"):
        words.append(f"for {action['notional_usd']:,.0f} USD at {action['leverage']}x, {action['order_type']}")
    return " ".join(word for word in words if word)


def _numbers(run: Mapping[str, Any]) -> Markup:
    # Rules cost nothing and have no usage.
    usage = run["usage"]
    cost = usd(usage["cost_usd"], 4) if usage else "0"
    net = sum(each["net_pnl_usd"] for each in run["trades"])
    cited = [each for each in run["citations"] or [] if each["cited"]]
    return figures(
        [
            ("Packet", number(run["tokens"]), "tokens"),
            ("Delay", f"{run['late_ms'] / 1000:.1f} s", f"due {run['scheduled_for'][11:19]} UTC"),
            ("Citations", number(len(run["citations"] or [])), f"{number(len(cited))} cited in the reply"),
            ("Orders", number(len(run["orders"])), plural(len(run["fills"]), "fill")),
            ("Model cost", cost, usage["model"] if usage else "USD, a rule decided"),
            ("Outcome", signed_usd(net) if run["trades"] else "–", "USD net of its trades"),
        ]
    )


def _actions(run: Mapping[str, Any]) -> Markup:
    """What was decided, why, and what the guard said."""
    if not run["actions"]:
        return sheet("Actions and verdicts", empty("No action", run["error"] or "The engine proposed nothing."))
    blocks = []
    for action in run["actions"]:
        refused = action["verdict"] == "refused"
        pairs: dict[str, Child] = {
            "action": together(_action_sentence(action), " ", side_badge(action["side"]) if action["side"] else None),
            "reason": action["reason"],
            "confidence": f"{action['confidence']:.0%}",
            "guard": together(
                badge("✗ refused", "bad") if refused else badge("✓ allowed", "good"),
                " ",
                action["rule"] or "",
                f" {action['detail']}" if action["detail"] else "",
            ),
        }
        # Down to the citation on this page, which leads to the document.
        if action["cites"]:
            pairs["cites"] = [tag("a", f"[{name}] ", href=f"#cite-{name}") for name in action["cites"]]
        if action["flags"]:
            pairs["flagged"] = "nothing in the packet explains " + ", ".join(action["flags"])
        if action.get("status"):
            pairs["order"] = action["status"]
        blocks.append(key_values(pairs))
    return sheet("Actions and verdicts", blocks)


def _votes(run: Mapping[str, Any]) -> Markup:
    if not run["votes"]:
        return Markup("")
    rows = [
        [
            vote["engine"],
            together(vote["action"], " ", side_badge(vote["side"]) if vote["side"] else None),
            f"{vote['confidence']:.0%}",
            f"{vote['weight']:.2f}",
            vote["reason"],
        ]
        for vote in run["votes"]
    ]
    return sheet("Votes", table(_VOTES, rows, label="Votes of the members"), flush=True)


def _citations(run: Mapping[str, Any]) -> Markup:
    found = run["citations"]
    if not found:
        what = (
            "Its packet cannot be made again, so they are not known."
            if found is None
            else "No document was found for this moment."
        )
        return sheet("Citations", empty("No citation", what, "tapebook recall add DIR"))
    blocks = [
        tag(
            "div",
            tag(
                "p",
                badge(f"✓ {each['id']}" if each["cited"] else each["id"], "good" if each["cited"] else ""),
                " ",
                document_link(each),
                tag("span", f" score {each['score']:.2f}", cls="tb-note"),
            ),
            text_block(each["text"] or each["snippet"]),
            cls="tb-more",
            id=f"cite-{each['id']}",
        )
        for each in found
    ]
    return sheet("Citations", blocks, note="✓ cited in the reply", flush=True)


def document_link(citation: Mapping[str, Any]) -> Markup:
    """A citation's place, which opens the document at its lines."""
    first, last = citation["startLine"], citation["endLine"]
    # With the hash, so that what was cited is shown even if the document has changed.
    query = query_of(path=citation["path"], sha256=citation["contentSha256"], first=first, last=last)
    return tag("a", f"{citation['path']}:{first}–{last}", href=f"/documents?{query}#line-{first}")


def _outcome(run: Mapping[str, Any]) -> Markup:
    orders = [
        [
            f"{each['side']} {each['symbol']}, {each['order_type']}",
            size(each["size"]),
            price(each["limit_price"]),
            badge(each["status"]),
            each["detail"],
        ]
        for each in run["orders"]
    ]
    fills = [
        [
            moment(each["happened_at"], seconds=True),
            each["side"],
            size(each["size"]),
            price(each["price"]),
            usd(each["fee_usd"]),
        ]
        for each in run["fills"]
    ]
    trades = [_trade_block(each) for each in run["trades"]]
    if not orders and not trades:
        return sheet("Orders and outcome", empty("No order", "This decision changed no position."))
    parts = [
        table(_ORDERS, orders, label="Orders") if orders else None,
        table(_FILLS, fills, label="Fills") if fills else None,
        trades,
    ]
    return sheet("Orders and outcome", parts, flush=True)


def _trade_block(trade: Mapping[str, Any]) -> Markup:
    """A trade, and what its result is made of."""
    # The other end of the trade: this decision is one of them.
    other = trade["exit_snapshot_id"] if trade["role"] == "entry" else trade["entry_snapshot_id"]
    end = "the decision that closed it" if trade["role"] == "entry" else "the decision that opened it"
    is_closed = trade["status"] == "closed"
    ended = moment(trade["exit_tick_at"]) if is_closed else badge("still open")
    pairs: dict[str, Child] = {
        "trade": together(f"{trade['role']} of {trade['symbol']} ", side_badge(trade["side"])),
        "opened": together(moment(trade["entry_tick_at"]), f" at {price(trade['entry_price'])}"),
        "closed": together(ended, f" at {price(trade['exit_price'])}" if is_closed else None),
        "best, worst": together(signed_usd(trade["mfe_usd"]), ", ", signed_usd(trade["mae_usd"]), " USD on the way"),
        "regime at entry": label(trade["entry_regime_tag"] or "–"),
        **({"exit reason": trade["exit_reason"]} if trade["exit_reason"] else {}),
        **({"other end": link(end, "decisions", other)} if other else {}),
    }
    return together(tag("div", key_values(pairs), cls="tb-body"), _attribution(trade))


def _attribution(trade: Mapping[str, Any]) -> Markup:
    """What a trade's result is made of: each part with a bar from zero, on one scale."""
    parts = {
        "price": trade["realized_pnl_usd"],
        "fees": -trade["fees_usd"],
        "funding": trade["funding_usd"],
        "net": trade["net_pnl_usd"],
    }
    widest = max([0.01, *(abs(value) for value in parts.values())])
    rows: list[list[Child]] = [
        [name, signed_usd(value), interval(min(value, 0), value, max(value, 0), span=(-widest, widest))]
        for name, value in parts.items()
    ]
    columns = [Cells("made of", "tb-fit"), Cells("USD", "num"), Cells("")]
    return table(columns, rows, label=f"What the result of {trade['symbol']} is made of")


def _parts(run: Mapping[str, Any]) -> Markup:
    """How many tokens each section of the packet took."""
    if run["sections"] is None:
        return sheet("Tokens by section", empty("Not kept", "The packet of this run cannot be built again."))
    note = plural(run["tokens"], "token")
    return sheet("Tokens by section", parts_table(run["sections"]), note=note, flush=True)


def parts_table(parts: Sequence[Mapping[str, Any]]) -> Markup:
    """The sections of a packet against their caps."""
    most = max((part["tokens"] for part in parts), default=1)
    rows = [
        [
            label(part["name"]),
            number(part["tokens"]),
            bar(part["tokens"], part["cap"] or most),
            number(part["shown"]) if part["shown"] else "–",
            number(part["dropped"]) if part["dropped"] else "–",
        ]
        for part in parts
    ]
    return table(_PARTS, rows, label="Sections of the packet and their tokens")


def _replay_sheet(frame: PageFrame, run: Mapping[str, Any]) -> None:
    """A button that builds the packet again and compares its bytes."""
    with sheet_of("Replay", "builds the packet again and compares the bytes"):
        with ui.element("div").classes("tb-controls"):
            button = action_button("Replay this decision")
            result = ui.html(tag("span", tag("code", f"sha256 {run['packet_sha256'][:16]}…")), sanitize=False)

        async def replay() -> None:
            # A replay takes a moment, and two at once would tell nothing more.
            button.disable()
            try:
                report = await frame.read(frame.book.replay, run["run_id"])
            except TapebookError as error:
                result.content = alert("It could not be built again", [str(error)], "bad")
                return
            finally:
                button.enable()
            if report.equal:
                result.content = tag(
                    "span", badge("✓ equal, byte for byte", "good"), " ", tag("code", f"sha256 {run['packet_sha256']}")
                )
            else:
                told = report.inputs_equal or report.different
                result.content = alert(
                    "The bytes differ" if report.different else "The inputs are equal",
                    [str(each) for each in told],
                    "bad",
                )

        button.on_click(replay)


async def _packet_sheet(frame: PageFrame, run: Mapping[str, Any]) -> None:
    """The packet as it was seen, and with the slider as the agent would have seen it at another moment."""
    at, now = parse_instant(run["as_of"]), frame.book.now()
    # The hours before it are where its why lies.
    first = at - 6 * HOUR
    with sheet_of("Packet as seen"):
        label = ui.html(sanitize=False).classes("tb-note")
        # The browser's own: it can be moved by keys and is understood by readers of the screen.
        slider = ui.element("input").classes("tb-slider")
        span = {"min": str(first), "max": str(max(now, at + 1)), "step": "60000", "value": str(at)}
        for name, value in {"type": "range", "aria-label": "As of: the moment whose packet is shown", **span}.items():
            slider.props[name] = value
        text = ui.html(sanitize=False)

        def show_stored() -> None:
            label.content = together(
                "As of ",
                moment(run["as_of"], seconds=True),
                " UTC, as it was sent. Move the slider to see what was known at another time.",
            )
            text.content = (
                text_block(run["packet"], tall=True)
                if run["packet"] is not None
                else empty("Not kept", "The text of this packet is gone.")
            )

        async def show(event: GenericEventArguments) -> None:
            chosen = int(event.args)
            # A step of the slider is a minute, and cannot hit the moment of the decision exactly.
            if abs(chosen - at) < 60_000:
                show_stored()
                return
            try:
                packet = await frame.read(frame.book.context, run["agent"], run["symbol"], as_of=chosen)
            except TapebookError as error:
                label.content, text.content = Markup(""), alert("Nothing to see", [str(error)])
                return
            label.content = together(
                "As of ",
                moment(iso_text(chosen), seconds=True),
                f" UTC, built now: what it would have seen then, {plural(packet.tokens, 'token')}",
            )
            text.content = text_block(f"{packet.system}\n\n{packet.text}", tall=True)

        show_stored()
        slider.on("change", show, js_handler="(event) => emit(Number(event.target.value))")


def _replies(run: Mapping[str, Any]) -> Markup:
    parts = []
    if run["reply"] is not None:
        parts.append(sheet("Reply", text_block(run["reply"])))
    if run["reasoning"] is not None:
        parts.append(sheet("Reasoning of the model", text_block(run["reasoning"])))
    return together(parts)
