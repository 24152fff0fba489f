"""Where questions are weighed before they are answered, over HTTP and over sockets alike."""

from collections import Counter, defaultdict

from tapebook.world.faults import Faults, Injected, Record
from tapebook.world.server import requests
from tapebook.world.server.answers import FAILED, TOO_MANY, Answer, answer
from tapebook.world.server.exchange import Exchange
from tapebook.world.server.limits import Client


class Desk:
    """The exchange with its clients' accounts."""

    def __init__(self, exchange: Exchange, faults: Faults, record: Record) -> None:
        self.exchange = exchange
        self._faults = faults
        self._record = record
        self._clients: dict[str, Client] = defaultdict(Client)
        self._asked: Counter[str] = Counter()

    def client(self, address: str | None) -> Client:
        """The account of an address."""
        return self._clients[address or ""]

    def ask(self, client: Client, request: requests.Request) -> Answer:
        """The answer, if the client's weight allows the question; what the rows weigh is known only afterwards."""
        now = self.exchange.now
        if not client.weight.fits(now, requests.weight(request, 0)):
            return TOO_MANY
        found = answer(self.exchange, request)
        client.weight.spend(now, requests.weight(request, found.rows))
        return found

    def ask_in_bad_weather(self, client: Client, request: requests.Request) -> Answer | None:
        """The answer, or the fault that strikes instead; None when the question stays unanswered."""
        fault = self._fault(request)
        if fault == "timeout":
            return None
        return {"too_many": TOO_MANY, "error": FAILED}.get(fault) or self.ask(client, request)

    def _fault(self, request: requests.Request) -> str:
        kind, subject, now = type(request).__name__, requests.subject(request), self.exchange.now
        if isinstance(request, requests.WorldClock):
            return ""
        # Time may stand still while a client tries again, so the dice go by the number of the try.
        self._asked[f"{kind}/{subject}"] += 1
        number = self._asked[f"{kind}/{subject}"]
        for fault in ("timeout", "too_many", "error"):
            if self._faults.happens(fault, f"{kind}/{subject}", now, number=number):
                self._record.add(Injected(fault, requests.CHANNELS.get(type(request), "*"), subject, now, now))
                return fault
        return ""
