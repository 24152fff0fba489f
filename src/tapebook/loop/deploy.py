"""Agents become deployments: the first event of a stream names the version, and the ledger gets its opening deposit."""

from tapebook.book.events import DeploymentOpened, LedgerPosted, draft
from tapebook.book.ledger import Posting
from tapebook.book.store import Book
from tapebook.domain.agent import AgentProfile, Deployment, deployment_id
from tapebook.domain.instants import iso
from tapebook.errors import UnknownName
from tapebook.wiring import Rooms


def require_agent(book: Book, name: str) -> tuple[int, AgentProfile]:
    """The newest version of an agent that is there; UnknownName for any other."""
    found, removed_at = book.agent(name), book.removed_at(name)
    if found is None:
        known = ", ".join(profile.name for _, profile in book.agents()) or "none yet"
        raise UnknownName(f"there is no agent called {name!r}; agents: {known}")
    if removed_at is not None:
        raise UnknownName(f"{name} was removed at {iso(removed_at)}: `tapebook agents add {name}` brings it back")
    return found


def deploy(rooms: Rooms, name: str) -> Deployment:
    """The deployment of an agent's newest version, opened if it is new, moved on if the version is."""
    version, profile = require_agent(rooms.book, name)
    deployment = Deployment(rooms.book.owner, deployment_id(profile), profile, version)
    seq = rooms.book.head(deployment.id)
    if rooms.book.deployed_version(deployment.id, seq=seq) != version:
        _open(rooms, deployment, seq)
    return deployment


def _open(rooms: Rooms, deployment: Deployment, seq: int) -> None:
    now, agent = rooms.clock.now(), deployment.agent
    drafts = [draft(now, DeploymentOpened(agent.name, deployment.version, agent.broker))]
    if seq == 0:
        deposit = Posting("deposit", "", agent.starting_cash_usd_e6)
        drafts.append(draft(now, LedgerPosted("opening", (deposit,), agent.starting_cash_usd_e6)))
    rooms.book.append(deployment.id, drafts, expected_seq=seq)
