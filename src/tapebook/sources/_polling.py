"""What sources that poll over HTTP share: the shell that asks, waits and gives up; each has a session that is pure.

1. `PolledSource.run` looks a few times a minute whether the session wants to know something, and asks politely.
2. An answer goes to the session. A server that is busy, broken or silent is asked again later, longer each time; the
   session keeps its place meanwhile, so that a crawl goes on where it stopped.
3. A question the server refuses for good (most statuses of 400 to 499) is given up, and the session told so.
4. Each answer becomes a part of the source's progress, which is kept with the rows of the tape. A process that was
   killed reads the parts again and goes on with the next question, as late as the one before would have asked it.

Where payloads are recorded, each answer is kept with its question as a frame of its own (`RecordedPoll`);
`PolledReplay` gives them to a session again, which makes the same facts of them.

Under virtual time all of this happens in `barrier`, without waiting between two questions: the market stands still.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tapebook.domain.market import FeatureRow, Gap, MidFrame, Observation, SubjectKind
from tapebook.domain.units import MINUTE, SECOND, parse_instant
from tapebook.tape.source import Fact, Sink, SourceContext, SourceProblem, SourceProgress

if TYPE_CHECKING:
    from aiohttp import ClientSession

BEAT_S = 5.0
"""How often a source looks whether something is due: its data are hourly."""

_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 10 * SECOND, 10 * MINUTE
# Busy, slow, or a filter in front of the server that took us for a robot: the same question may be answered later.
_TRANSIENT = frozenset((403, 408, 425, 429))
_MOST_BODY = 64 * 2**20
# Servers behind Cloudflare refuse the names that HTTP libraries of Python give themselves.
_HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; tapebook)", "Accept": "application/json"}
_MOST_SAID = 200
# The part of a source's progress that says how long it waits; those of its session are numbered from 1.
_WAITS = 0


class HttpRequest(msgspec.Struct, frozen=True):
    """A question: a GET, or a POST if it has a body. `kind` and `subject` say what for."""

    kind: str
    url: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    subject: str = ""


class PollSession(Protocol):
    """What a polled source knows and wants to know, without any I/O."""

    def next_request(self, now: int) -> HttpRequest | None:
        """The question to ask next; None while nothing is due. It stays the next one until it has ended."""
        ...

    def handle_answer(self, request: HttpRequest, body: bytes, now: int) -> str | None:
        """Takes an answer; why it cannot be read, if it cannot: then it is asked again later."""
        ...

    def skip_request(self, request: HttpRequest, why: str, now: int) -> None:
        """Goes on without the answer to a question that the server refused for good."""
        ...

    def restore(self, parts: Sequence[str], now: int) -> None:
        """Takes up again what a session before this one had done; ValueError when that cannot be read."""
        ...

    def start_state(self) -> str | None:
        """While nothing is answered yet, the part by which `restore` asks the same questions; None if it needs none."""
        ...


class _Waits(msgspec.Struct, frozen=True):
    """How often a server has failed, when it may be asked again, and what it said."""

    failures: int = 0
    not_before: int = 0
    trouble: str | None = None


class _HttpRefusal(msgspec.Struct, frozen=True):
    why: str
    for_good: bool = False
    limited: bool = False
    wait_ms: int = 0


class RecordedPoll(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question without its address, when it was asked, and its answer or why there is none; with a first question
    comes the part of progress that its session began with.
    """

    asked_at: int
    request: HttpRequest
    answer: msgspec.Raw
    refused: str = ""
    start: str = ""


class _PollFrame(msgspec.Struct, frozen=True):
    channel: str
    data: RecordedPoll


def _question(request: HttpRequest) -> HttpRequest:
    """A question as it is compared: the same one may have gone to another address."""
    return msgspec.structs.replace(request, url="")


class _ReplayedFacts:
    """Where a session puts what it makes of recorded answers; gaps, problems and progress are those of its own time."""

    def __init__(self) -> None:
        self.facts: list[Observation] = []
        self.kinds: dict[str, SubjectKind] = {}

    def add_observations(self, observations: Sequence[Fact]) -> None:
        self.facts += [fact for fact in observations if not isinstance(fact, MidFrame)]

    def add_gap(self, gap: Gap) -> None: ...

    def add_filled_range(self, gap: Gap) -> None: ...

    def add_problem(self, problem: SourceProblem) -> None: ...

    def add_kinds(self, kinds: Mapping[str, SubjectKind]) -> None:
        self.kinds |= kinds

    def add_progress(self, progress: SourceProgress) -> None: ...


class PolledReplay:
    """Gives recorded answers to a session, which asks nobody: `SourceReplay` of a polled source.

    An answer to another question than the session's next one is left out, as those of a crawl whose beginning was not
    recorded are.
    """

    def __init__(self, name: str, make_session: Callable[[Sink, "PolledReplay"], PollSession]) -> None:
        self._begins = msgspec.json.encode({"channel": name})[:-1] + b","
        self._sink = _ReplayedFacts()
        self._rows: dict[tuple[str, str], list[FeatureRow]] = {}
        self._make_session = make_session
        self._session = make_session(self._sink, self)

    @property
    def kinds(self) -> Mapping[str, SubjectKind]:
        """The kinds of the subjects, so far."""
        return self._sink.kinds

    def is_mine(self, frame: bytes) -> bool:
        """Whether a frame is one of `RecordedPoll`s of this source."""
        return frame.startswith(self._begins)

    def add_frame(self, frame: bytes, *, at: int) -> tuple[Sequence[Observation], str]:
        """The facts that an answer completes, and why it cannot be read; empty when it can."""
        try:
            poll = msgspec.json.decode(frame, type=_PollFrame).data
            if poll.start:
                self._session = self._make_session(self._sink, self)
                self._session.restore([poll.start], poll.asked_at)
        except (ValueError, KeyError) as error:
            return (), f"is no answer that was recorded here: {error}"
        wanted = self._session.next_request(poll.asked_at)
        if wanted is None or _question(wanted) != poll.request:
            return (), ""
        problem = None
        if poll.refused:
            self._session.skip_request(wanted, poll.refused, at)
        else:
            # What cannot be read was asked for again, so that no fact is missing without it.
            problem = self._session.handle_answer(wanted, bytes(poll.answer), at)
        facts, self._sink.facts = self._sink.facts, []
        for fact in facts:
            if isinstance(fact, FeatureRow):
                self._rows.setdefault((fact.family, fact.symbol), []).append(fact)
        return facts, problem or ""

    def feature(self, family: str, symbol: str, *, at: int) -> FeatureRow | None:
        """The newest row that was made of answers so far and is not after a moment."""
        return next((row for row in reversed(self._rows.get((family, symbol), ())) if row.bucket_ts <= at), None)


class PolledSource:
    """Asks what a session wants to know; a source for `tape/source.py`."""

    def __init__(
        self, name: str, session: PollSession, context: SourceContext, *, per_second: float, timeout_s: float = 45.0
    ) -> None:
        self._name, self._session, self._context = name, session, context
        self._pause_s, self._timeout_s = 1 / per_second, timeout_s
        self._http: ClientSession | None = None
        self._waits = _Waits()
        if context.progress:
            self._restore(context.progress, context.clock())

    def _restore(self, progress: Mapping[int, str], now: int) -> None:
        try:
            waits = msgspec.json.decode(progress.get(_WAITS, "{}"), type=_Waits)
            self._session.restore([state for part, state in progress.items() if part > _WAITS], now)
        except (ValueError, KeyError) as error:
            # Of another version, mostly: what was done is done again.
            self._context.sink.add_progress(SourceProgress(self._name))
            said = f"progress cannot be read, and is made anew ({type(error).__name__}: {error})"[:_MOST_SAID]
            self._context.sink.add_problem(SourceProblem(self._name, "progress", "", said))
        else:
            # A clock that was set back must not make it wait for longer than it ever would.
            self._waits = msgspec.structs.replace(waits, not_before=min(waits.not_before, now + _LONGEST_WAIT_MS))

    async def run(self) -> None:
        """Asks what is due until cancelled; under virtual time `barrier` does."""
        # Loaded by those who listen: most commands never do.
        import asyncio

        try:
            while not self._context.stepped:
                await self.barrier(self._context.clock())
                await self._context.sleep(BEAT_S)
            await asyncio.Event().wait()
        finally:
            if self._http is not None:
                await self._http.close()
                self._http = None

    async def barrier(self, now: int) -> None:
        """Asks everything that is due, until a server wants to be left alone."""
        while now >= self._waits.not_before and (request := self._session.next_request(now)) is not None:
            asked_at, answer = now, await self._ask(request)
            now = now if self._context.stepped else self._context.clock()
            refusal = answer if isinstance(answer, _HttpRefusal) else None
            if self._context.record is not None and (refusal is None or refusal.for_good):
                self._context.record(now, self._recorded_frame(request, answer, asked_at))
            if isinstance(answer, bytes) and (unreadable := self._session.handle_answer(request, answer, now)):
                refusal = _HttpRefusal(unreadable)
            if refusal is not None:
                self._handle_refusal(request, refusal, now)
            elif self._waits != _Waits():
                self._keep_waits(_Waits())
            if not self._context.stepped:
                await self._context.sleep(self._pause_s)

    def connection_problem(self) -> str | None:
        """Why nothing is heard just now, in one line; None while something is."""
        return None if self._waits.trouble is None else f"{self._name} does not answer ({self._waits.trouble})"

    def unlisted_settings(self) -> tuple[str, ...]:
        """Nothing: what settings of such a source name is taken as it is."""
        return ()

    def _recorded_frame(self, request: HttpRequest, answer: "bytes | _HttpRefusal", asked_at: int) -> bytes:
        refused = answer.why[:_MOST_SAID] if isinstance(answer, _HttpRefusal) else ""
        shown = b"null" if isinstance(answer, _HttpRefusal) else answer
        try:
            msgspec.json.decode(shown, type=msgspec.Raw)
        except msgspec.DecodeError:
            shown = msgspec.json.encode(shown.decode(errors="replace"))
        start = self._session.start_state() or ""
        poll = RecordedPoll(asked_at, _question(request), msgspec.Raw(shown), refused, start)
        return msgspec.json.encode({"channel": self._name, "data": poll})

    def _handle_refusal(self, request: HttpRequest, refusal: _HttpRefusal, now: int) -> None:
        kind = "limited" if refusal.limited else "refused"
        subject = f"{request.kind} {request.subject}".strip()
        self._context.sink.add_problem(SourceProblem(self._name, kind, subject, refusal.why[:_MOST_SAID]))
        if refusal.for_good:
            self._session.skip_request(request, refusal.why, now)
            return
        wait = min(_LONGEST_WAIT_MS, _FIRST_WAIT_MS * 2 ** min(self._waits.failures, 10))
        until = now + max(wait, min(refusal.wait_ms, _LONGEST_WAIT_MS))
        self._keep_waits(_Waits(self._waits.failures + 1, until, refusal.why[:_MOST_SAID]))

    def _keep_waits(self, waits: _Waits) -> None:
        self._waits = waits
        state = msgspec.json.encode(waits).decode()
        self._context.sink.add_progress(SourceProgress(self._name, _WAITS, state))

    async def _ask(self, request: HttpRequest) -> bytes | _HttpRefusal:
        import asyncio

        from aiohttp import ClientError, ClientSession, ClientTimeout

        if self._http is None:
            self._http = ClientSession(headers=_HEADERS, timeout=ClientTimeout(total=None))
        method, data = ("GET", None) if request.body is None else ("POST", request.body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        asking = self._http.request(method, request.url, params=request.params, data=data, headers=headers)
        try:
            async with asyncio.timeout(self._timeout_s), asking as response:
                body = await response.content.read(_MOST_BODY)
                while not response.content.at_eof() and len(body) < _MOST_BODY:
                    body += await response.content.read(_MOST_BODY)
        except TimeoutError:
            return _HttpRefusal(f"no answer within {self._timeout_s:g} s")
        except (ClientError, OSError) as error:
            return _HttpRefusal(f"{type(error).__name__}: {error}")
        if response.status != 200:
            return _refusal_of(response.status, body, response.headers.get("Retry-After", ""))
        return body


def _refusal_of(status: int, body: bytes, retry_after: str) -> _HttpRefusal:
    why = f"{status} {body[:100].decode(errors='replace')}"
    for_good = 400 <= status < 500 and status not in _TRANSIENT
    # A date is not read: whose clock it is by, nobody knows.
    seconds = int(retry_after) if retry_after.isascii() and retry_after.isdecimal() else 0
    return _HttpRefusal(why, for_good, limited=status == 429, wait_ms=min(seconds, 3_600) * SECOND)


def missed_hours(source: str, channel: str, *, newest: int | None, bucket: int, step: int) -> list[Gap]:
    """The gap between the newest bucket the tape has and the one that is delivered now, if hours lie between them."""
    if newest is None or bucket - newest < 2 * step:
        return []
    return [Gap(source, channel, "*", newest - newest % step + step, bucket - bucket % step, "no complete answer")]


def decode_answer(body: bytes) -> Any:
    """An answer as it is; ValueError in one line for what is none, such as the page of a proxy."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        begins = body[:60].decode(errors="replace")
        raise ValueError(f"no JSON ({error}): {begins!r}") from error


def text_of(row: Mapping[str, Any], name: str, most: int = 300) -> str:
    """A text of an answer, without what no database holds; empty when it is missing or something else."""
    value = row.get(name)
    # Lone surrogates and NUL have no place in a database; all else stays as it was written.
    return value[:most].replace("\x00", "").encode(errors="replace").decode() if isinstance(value, str) else ""


def number_of(row: Mapping[str, Any], name: str) -> float | None:
    """A finite number of an answer, which may be written as text; None when it is missing or something else."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    # The same as asking whether it is finite, and not larger than money gets.
    return found if -1e18 < found < 1e18 else None


def instant_of(row: Mapping[str, Any], name: str) -> int | None:
    """A moment of an answer in any of the forms there are; None when it is missing or cannot be read."""
    text = text_of(row, name, 40)
    try:
        return parse_instant(text.strip()) if text else None
    except (ValueError, OverflowError):
        return None
