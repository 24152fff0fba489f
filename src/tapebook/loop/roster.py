"""Who is on the desk: the deployments of enabled agents, read again only when the owner's stream has moved."""

from collections.abc import Callable, Iterable

from tapebook.domain.agent import AgentProfile, Deployment, deployment_id, is_dry
from tapebook.errors import BadInput
from tapebook.wiring import Rooms


class Roster:
    """The deployments of a home."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._seq = -1
        self._enabled: list[Deployment] = []
        self._profiles: dict[tuple[str, int], AgentProfile] = {}

    def enabled(self) -> list[Deployment]:
        """Deployments of enabled agents at their newest version; BadInput when two of them share an account."""
        seq = self._rooms.book.head()
        if seq != self._seq:
            agents = [(version, profile) for version, profile in self._rooms.book.agents() if profile.enabled]
            owner = self._rooms.book.owner
            found = [Deployment(owner, deployment_id(profile), profile, version) for version, profile in agents]
            refuse_shared_accounts(found, self._account)
            self._enabled, self._seq = found, seq
        return self._enabled

    def running(self, deployment: str) -> Deployment | None:
        """A deployment at the version it was opened with last, whether its agent is enabled or not."""
        found = self._rooms.work.deployed(deployment)
        if found is None:
            return None
        if found not in self._profiles:
            saved = self._rooms.book.agent(found[0], version=found[1])
            if saved is None:
                return None
            self._profiles[found] = saved[1]
        return Deployment(self._rooms.book.owner, deployment, self._profiles[found], found[1])

    def _account(self, deployment: Deployment) -> str | None:
        # A dry run has no account. Paper accounts are as many as deployments; a broker of an exchange names its one.
        if is_dry(deployment.id):
            return None
        return getattr(self._rooms.broker(deployment.agent.broker), "account", None)


def refuse_shared_accounts(deployments: Iterable[Deployment], account_of: Callable[[Deployment], str | None]) -> None:
    """Two agents on one exchange account would trade against each other's positions: BadInput names both."""
    first: dict[str, str] = {}
    for deployment in deployments:
        account = account_of(deployment)
        if account is None:
            continue
        other = first.setdefault(account, deployment.id)
        if other != deployment.id:
            raise BadInput(f"{other} and {deployment.id} are on one account ({account}): disable one of the two agents")
