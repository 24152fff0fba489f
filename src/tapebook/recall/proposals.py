"""A manual that somebody proposes: shown as a difference, and standing only when the owner agrees."""

import difflib
from typing import Literal

import msgspec

from tapebook.domain.canonical import sha256_hex, short_id
from tapebook.domain.text import has_hidden
from tapebook.errors import BadInput

ProposalStatus = Literal["open", "approved", "rejected"]


class Proposal(msgspec.Struct, frozen=True):
    """A proposed manual: which manual it is meant to follow, who proposed it, and what came of it."""

    proposal_id: str
    agent: str
    base_sha256: str
    sha256: str
    written_by: str
    run_id: str
    known_at: int
    status: ProposalStatus
    decided_by: str
    decided_at: int | None
    version: int


def proposal_id(agent: str, *, base: str, text: str, at: int) -> str:
    """An id for people to type."""
    return short_id("proposal", agent, sha256_hex(base.encode()), sha256_hex(text.encode()), at)[:10]


def checked(text: str, *, manual: str) -> str:
    """A proposed manual; BadInput when it is empty, hides something, or changes nothing."""
    proposed = text.replace("\r\n", "\n").strip("\n")
    if not proposed.strip():
        raise BadInput("the proposed manual is empty: write the whole manual as it should be")
    if has_hidden(proposed.replace("\n", "").replace("\t", "")):
        raise BadInput("the proposed manual has control characters, or some that are not seen: remove them")
    if proposed == manual.strip("\n"):
        raise BadInput("the proposed manual is the one that stands: there is nothing to decide")
    return proposed


def difference(before: str, after: str, *, agent: str) -> list[str]:
    """The lines of a unified diff from the manual that stands to the one that is proposed."""
    name = f"agents/{agent}/TRADING_MANUAL.md"
    pair = before.splitlines(), after.splitlines()
    return list(difflib.unified_diff(*pair, f"{name} (now)", f"{name} (proposed)", lineterm=""))
