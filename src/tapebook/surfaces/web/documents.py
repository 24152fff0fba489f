"""Recall: search with explanations, documents at their lines, the workspace, and proposals to approve."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.domain.text import plural
from tapebook.errors import TapebookError
from tapebook.surfaces.web.decisions import document_link
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
    key_values,
    label,
    link,
    moment,
    number,
    sheet,
    table,
    tag,
    text_block,
    together,
)

_WRITES = [
    *(Cells("at", "tb-fit"), Cells("kind", "tb-fit"), Cells("agent", "tb-fit"), Cells("written by", "tb-fit")),
    *(Cells("decision", "tb-fit"), Cells("place", "long")),
]
_FILES = [
    Cells("document", "long"),
    Cells("kind", "tb-fit"),
    Cells("visible to", "tb-fit"),
    Cells("known since", "tb-fit"),
]
_KINDS = [Cells("kind", "tb-fit"), Cells("documents", "num"), Cells("")]
# A document may be a megabyte; a browser should not be asked to draw all of it.
_MOST_LINES = 5_000


def register(book: Tapebook) -> None:
    """Adds the pages."""

    @page("/recall")
    async def recall(q: str = "", agent: str = "") -> None:
        with page_frame(book, "/recall", title="Recall", lead="Search, documents and proposals") as frame:
            await _search_sheet(frame, q)
            await frame.live(lambda: _workspace(frame), streams=lambda stream: stream in ("documents", "owner"))

    @page("/documents")
    async def document(path: str = "", sha256: str = "", first: int = 0, last: int = 0) -> None:
        with page_frame(book, "/recall", title="Document", lead=tag("code", path)) as frame:
            await draw_or_say(lambda: _document(frame, path, sha256 or None, (first, last)))


async def _document(frame: PageFrame, path: str, sha256: str | None, cited: tuple[int, int]) -> None:
    found = await frame.read(frame.book.recall.document, path, sha256=sha256)
    facts: dict[str, Child] = {
        "path": found.path,
        "visible to": found.scope or "all agents",
        "kind": found.kind,
        "known since": moment(found.known_at),
        "sha256": tag("code", found.content_sha256),
    }
    text = found.text.split("\n")
    first, last = cited
    lines = [
        tag(
            "div",
            tag("span", str(place)),
            tag("span", line),
            id=f"line-{place}",
            cls="tb-hit" if first <= place <= last else None,
        )
        for place, line in enumerate(text[:_MOST_LINES], 1)
    ]
    left = len(text) - _MOST_LINES
    note = f"lines {first}–{last} cited" if last else plural(len(text), "line")
    frame.html(
        sheet("Document", key_values(facts)),
        sheet("Text", tag("div", lines, cls="tb-lines"), note=note, flush=True),
        tag("p", f"{plural(left, 'line')} more", cls="tb-note") if left > 0 else None,
    )
    # The browser jumps to an anchor before the page is drawn; so it is asked again.
    if last:
        ui.run_javascript(f"document.getElementById('line-{int(first)}')?.scrollIntoView({{block: 'center'}})")


async def _search_sheet(frame: PageFrame, query: str) -> None:
    """A question, and the places that answer it with what their scores are made of."""
    with sheet_of("Search", "by words and meaning; a result opens the document at its lines"):
        with ui.element("div").classes("tb-controls"):
            asked = ui.input("Question", value=query).props("outlined dense").style("min-width: min(420px, 70vw)")
            asked.props["aria-label"] = "Question"
            button = action_button("Search")
        results = ui.html(sanitize=False)

        async def search() -> None:
            if not asked.value.strip():
                results.content = empty("Search the documents", "For example: what do I do when the feed disconnects?")
                return
            try:
                found = await frame.read(frame.book.recall.search, asked.value)
            except TapebookError as error:
                results.content = alert("The search failed", [str(error)])
                return
            results.content = _results(found)

        button.on_click(search)
        asked.on("keydown.enter", search)
    await search()


def _results(found: Any) -> Markup:
    if not len(found):
        return empty(
            "No result", found.why or "No document matches. Add a folder of documents:", "tapebook recall add DIR"
        )
    blocks = []
    for citation, parts in zip(found.citations, found.explained, strict=True):
        seen = citation.to_dict()
        made = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
        blocks.append(
            tag(
                "div",
                tag(
                    "p",
                    badge(f"{citation.score:.2f}"),
                    " ",
                    document_link(seen),
                    tag("span", f" {made}", cls="tb-note"),
                ),
                text_block(citation.snippet),
                cls="tb-more",
            )
        )
    missing = alert("Part of the index did not answer", [found.missing]) if found.missing else None
    return together(missing, blocks)


async def _workspace(frame: PageFrame) -> None:
    status = await frame.read(frame.book.recall.status)
    await _proposals(frame)
    frame.html(
        figures(
            [
                ("Documents", number(status.documents), plural(len(status.kinds), "kind")),
                ("Chunks", number(status.chunks), f"{status.index_bytes / 2**20:.1f} MB of index"),
                (
                    "Index",
                    "up to date" if status.head == status.documents_head else "behind",
                    label(status.slot),
                ),
                ("Open proposals", number(len(status.open_proposals)), "to approve or reject"),
            ]
        ),
        _files(status),
        _folders(status),
    )
    writes = await frame.read(frame.book.recall.writes, most=20)
    rows = [
        [
            moment(each["known_at"]),
            each["kind"],
            each["agent"],
            each["written_by"],
            link(each["run_id"], "decisions", each["run_id"]) if each["run_id"] else "–",
            each["place"],
        ]
        for each in writes
    ]
    body = (
        table(_WRITES, rows, label="What was written")
        if rows
        else empty(
            "No entry yet", "Entries and proposals of agents appear here:", "tapebook recall append journal AGENT TEXT"
        )
    )
    frame.html(sheet("Writes", body, flush=bool(rows)))


def _files(status: Any) -> Markup:
    """The documents that are files, each to be opened."""
    rows: list[list[Child]] = [
        [
            tag("a", each.path, href=f"/documents?{query_of(path=each.path, sha256=each.content_sha256)}"),
            each.kind,
            each.scope or "all agents",
            moment(each.known_at),
        ]
        for each in status.files
    ]
    if not rows:
        advice = "Write files to the workspace, or add a folder:"
        return sheet("Files", empty("No file yet", advice, "tapebook recall add DIR", "tapebook recall sync"))
    listed = tag("div", table(_FILES, rows, label="Files"), cls="tb-limited", tabindex="0")
    return sheet("Files", listed, note="changed last first", flush=True)


def _folders(status: Any) -> Markup:
    most = max(status.kinds.values(), default=1)
    kinds = [[name, number(count), bar(count, most)] for name, count in status.kinds.items()]
    refused = [tag("li", f"{each.path}: {each.why}") for each in status.refused[:20]]
    facts: dict[str, Child] = {
        "workspace": tag("code", status.workspace),
        "synced": moment(status.synced_at) if status.synced_at else "never",
        **{f"folder {name}": tag("code", place) for name, place in status.folders.items()},
        **({"refused": tag("ul", refused)} if refused else {}),
        **({"problem": status.problem} if status.problem else {}),
    }
    none = empty("No document yet", "Decisions, trades and notes become documents as well.", "tapebook recall sync")
    body = table(_KINDS, kinds, label="Documents by kind") if kinds else none
    listed = sheet("Documents by kind", body, flush=bool(kinds))
    return tag("div", sheet("Workspace", key_values(facts)), listed, cls="tb-columns")


async def _proposals(frame: PageFrame) -> None:
    """Manuals that somebody proposed, with what would change, to approve or to reject."""
    found = await frame.read(frame.book.recall.proposals, most=20)
    # Those that wait come first, with what they would change.
    waiting = [each for each in found if each["status"] == "open"]
    if not found:
        advice = "Agents, and programs that write for them, propose a new manual with:"
        frame.html(sheet("Proposals", empty("No proposal yet", advice, "tapebook recall propose AGENT --file FILE")))
        return
    with sheet_of("Proposals", "a proposed manual changes nothing until it is approved"):
        for each in waiting:
            await _proposal(frame, each)
        done = [
            tag(
                "li",
                badge(each["status"], "good" if each["status"] == "approved" else ""),
                " ",
                link(each["agent"], "agents", each["agent"]),
                f" by {each['written_by']}, ",
                moment(each["decided_at"]),
            )
            for each in found
            if each["status"] != "open"
        ]
        frame.html(tag("ul", done, cls="tb-note") if done else None)


async def _proposal(frame: PageFrame, proposal: Mapping[str, Any]) -> None:
    name = proposal["proposal_id"]
    shown = await frame.read(frame.book.recall.proposal, name)
    frame.html(
        tag(
            "p",
            link(proposal["agent"], "agents", proposal["agent"]),
            f": proposed by {proposal['written_by']}, ",
            moment(proposal["known_at"]),
        ),
        diff_block(shown.diff),
    )
    with ui.element("div").classes("tb-controls"):
        approve = action_button("Approve")
        reject = action_button("Reject", plain=True)
    said = ui.html(sanitize=False)

    async def decide(is_approved: bool) -> None:
        # Both at once: a proposal is decided on one way.
        approve.disable()
        reject.disable()
        recall = frame.book.recall
        try:
            await frame.read(recall.approve if is_approved else recall.reject, name, by="owner")
        except TapebookError as error:
            said.content = alert("It was not done", [str(error)], "bad")
            return
        # The log has it before the documents are taken in: by now the part may be drawn anew, without this proposal.
        if not said.is_deleted:
            said.content = alert("Approved: a new version of the agent" if is_approved else "Rejected", [], "good")

    approve.on_click(lambda: decide(True))
    reject.on_click(lambda: decide(False))


def diff_block(lines: Any) -> Markup:
    """Lines of a difference; what begins with a plus or a minus is coloured."""
    # The signs stay: a colour alone would say nothing to some.
    tones = {"+": "add", "-": "del"}
    written = [tag("span", f"{line}\n", cls=tones.get(line[:1])) for line in lines]
    return tag("pre", written, cls="tb-text tb-diff", tabindex="0")
