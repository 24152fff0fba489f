"""The tables of documents: what each event of this room writes."""

from typing import Any

import msgspec

from tapebook.db import Queries
from tapebook.domain.canonical import canonical
from tapebook.log import Event, Projection, Write
from tapebook.recall import events as ev

_QUERIES = Queries.load("tapebook.recall", "projections.sql")

# What a removal has of a version: nothing but the place.
_GONE = {"sha256": "", "size": 0, "origin": "file", "trust": "owner"}


def _place(event: Event) -> dict[str, Any]:
    return {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}


def _known(event: Event, body: msgspec.Struct) -> dict[str, Any]:
    times = {"known_at": event.known_at, "happened_at": event.happened_at}
    return msgspec.structs.asdict(body) | _place(event) | times


def _kept(event: Event) -> list[Write]:
    return [Write(_QUERIES.version, _known(event, ev.body_of(event, ev.DocumentKept)))]


def _removed(event: Event) -> list[Write]:
    return [Write(_QUERIES.version, _known(event, ev.body_of(event, ev.DocumentRemoved)) | _GONE)]


def _appended(event: Event) -> list[Write]:
    return [Write(_QUERIES.entry, _known(event, ev.body_of(event, ev.EntryAppended)))]


def _folder(event: Event) -> list[Write]:
    return [Write(_QUERIES.folder, _known(event, ev.body_of(event, ev.FolderAdded)))]


def _folder_removed(event: Event) -> list[Write]:
    return [Write(_QUERIES.folder, _known(event, ev.body_of(event, ev.FolderRemoved)) | {"place": ""})]


def _proposed(event: Event) -> list[Write]:
    return [Write(_QUERIES.proposal, _known(event, ev.body_of(event, ev.ManualProposed)))]


def _decided(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.ProposalDecided)
    word = {"status": "approved" if body.approved else "rejected", "decided_at": event.known_at}
    return [Write(_QUERIES.decide, _known(event, body) | word)]


def _read(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.LogRead)
    return [Write(_QUERIES.mark, _known(event, body) | {"troubles_json": canonical(body.troubles).decode()})]


def _terms(event: Event) -> list[Write]:
    return [Write(_QUERIES.terms, _known(event, ev.body_of(event, ev.TermsChosen)))]


PROJECTION = Projection(
    tables=(
        *("document_versions", "document_entries", "document_folders", "manual_proposals"),
        *("document_marks", "document_terms"),
    ),
    projectors={
        ev.KINDS[ev.DocumentKept]: _kept,
        ev.KINDS[ev.DocumentRemoved]: _removed,
        ev.KINDS[ev.EntryAppended]: _appended,
        ev.KINDS[ev.FolderAdded]: _folder,
        ev.KINDS[ev.FolderRemoved]: _folder_removed,
        ev.KINDS[ev.ManualProposed]: _proposed,
        ev.KINDS[ev.ProposalDecided]: _decided,
        ev.KINDS[ev.LogRead]: _read,
        ev.KINDS[ev.TermsChosen]: _terms,
    },
)
