"""Lessons that are shared: an owner promotes a note to a skill, and whoever has the skill is told it.

A skill is a name. Every agent has the skill of its own name, so a note can be promoted to one agent, or to the
agent's other deployments; further ones stand in its profile. A promotion is an event of the owner's stream, and
`tellings_due` copies it to a deployment before its next decision, which reads its own stream alone.
"""

from collections.abc import Callable, Iterable

import msgspec

from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.memo import Memo
from tapebook.domain.memory import Lessons
from tapebook.domain.note import Note, SkillNote
from tapebook.errors import BadInput, UnknownName
from tapebook.home import fellow_writer
from tapebook.lessons import NO_LESSONS, bullets
from tapebook.lessons.events import promoted
from tapebook.log import Draft
from tapebook.profile_keys import SKILL
from tapebook.wiring import Rooms

# Beyond the end of any stream. What the owner promoted is read as it is now: that it was read is an event.
_NEWEST = 2**62


class Promotion(msgspec.Struct, frozen=True):
    """What holds for a skill now, and the deployments that are told before their next decision."""

    skill: str
    note_id: str
    agent: str
    content_hash: str
    bullets: tuple[str, ...]
    told: tuple[str, ...]

    def result(self) -> str:
        """What happened, in a line."""
        whom = ", ".join(self.told) or "nobody yet: no other deployment has this skill"
        if not self.bullets:
            return f"nothing is promoted to {self.skill} any more; told: {whom}"
        return f"{len(self.bullets)} lessons of {self.agent} are promoted to {self.skill}; told: {whom}"


class HomeSkills:
    """Skills by the names of agents: what `Tapebook.skills` gives. `find` gives the deployment of an agent."""

    def __init__(self, rooms: Rooms, *, find: Callable[[str], Deployment]) -> None:
        self._rooms = rooms
        self._find = find

    def promote(self, agent: str, *, to: str | None = None, skill: str | None = None) -> Promotion:
        """Has others told an agent's lessons: one other agent, all with a skill, or else its own other deployments."""
        own = self._find(agent)
        return promote(self._rooms, own, self._find(to).agent.name if to else skill or own.agent.name)

    def demote(self, skill: str) -> Promotion:
        """Takes back what was promoted to a skill or an agent."""
        return demote(self._rooms, skill)

    def all(self) -> list[SkillNote]:
        """What holds for each skill now."""
        return promotions(self._rooms)

    def told(self, agent: str) -> list[SkillNote]:
        """What an agent is told of others' lessons at its next decision."""
        own = self._find(agent)
        wanted = _skills(own.agent)
        return [each for each in promotions(self._rooms) if each.skill in wanted and each.source != own.id]


def promote(rooms: Rooms, deployment: Deployment, skill: str) -> Promotion:
    """Makes the note that stands for a deployment hold for a skill."""
    require_skill(skill)
    note = rooms.notes.active(deployment.id, seq=rooms.book.head(deployment.id))
    if note is None or not bullets(note.lessons_text):
        raise BadInput(f"{deployment.agent.name} has no lessons to promote: `tapebook lessons show` says what it has")
    text, content_hash = note.lessons_text, note.content_hash
    at, agent = rooms.clock.now(), deployment.agent.name
    return _keep(rooms, SkillNote(skill, note.note_id, deployment.id, agent, at, text, content_hash))


def demote(rooms: Rooms, skill: str) -> Promotion:
    """Ends what was promoted to a skill."""
    standing = {each.skill: each for each in promotions(rooms)}
    if skill not in standing:
        known = ", ".join(standing) or "none"
        raise UnknownName(f"nothing is promoted to {skill!r}; skills with lessons: {known}")
    ended = msgspec.structs.replace(standing[skill], happened_at=rooms.clock.now(), lessons_text="", content_hash="")
    return _keep(rooms, ended)


def promotions(rooms: Rooms) -> list[SkillNote]:
    """What holds for each skill now."""
    return [each for each in rooms.notes.skills("", seq=_NEWEST) if each.lessons_text]


def require_skill(name: str) -> None:
    """Refuses what cannot be the name of a skill."""
    if not SKILL.fullmatch(name):
        raise BadInput(f"{name[:60]!r} cannot be the name of a skill: use up to 40 letters, digits, . _ or -")


def tellings_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events by which a deployment is told what was promoted, or taken back, since it was last told."""
    wanted = _skills(deployment.agent)
    held = [each for each in rooms.notes.skills("", seq=_NEWEST) if each.skill in wanted]
    if not held:
        return []
    told = {each.skill: each for each in rooms.notes.skills(deployment.id, seq=seq)}
    news = [(_for(deployment, each), told.get(each.skill)) for each in held]
    return [promoted(new) for new, old in news if (new.lessons_text if old is None else new != old)]


def lessons_of(rooms: Rooms, deployment: Deployment, *, seq: int) -> Lessons:
    """What an agent is told of its lessons: the bullets of its note, then those of its skills; often nothing.

    The hash is that of the first note with anything to tell, so that it joins one. Where none has, it is that of the
    agent's own note, and without one that of an empty text.
    """
    return _lessons((deployment.agent, rooms.notes.told(deployment.id, seq=seq)))


def notes_told(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Note | SkillNote]:
    """The notes that these lessons are from."""
    note, held = rooms.notes.told(deployment.id, seq=seq)
    own = [note] if note and bullets(note.lessons_text) else []
    return [*own, *_shared(deployment.agent, held)]


def _joined(told: tuple[AgentProfile, tuple[Note | None, tuple[SkillNote, ...]]]) -> Lessons:
    agent, (note, held) = told
    own = bullets(note.lessons_text) if note else ()
    shared = _shared(agent, held)
    lines = [f"From {each.agent}: {line}" for each in shared for line in bullets(each.lessons_text) if line not in own]
    if shared and not own:
        return Lessons(tuple(lines), shared[0].content_hash)
    return Lessons((*own, *lines), note.content_hash if note else NO_LESSONS)


def _shared(agent: AgentProfile, held: Iterable[SkillNote]) -> list[SkillNote]:
    wanted = _skills(agent)
    return [each for each in held if each.lessons_text and each.skill in wanted]


# Notes change once in many ticks.
_lessons = Memo(_joined)


def _keep(rooms: Rooms, note: SkillNote) -> Promotion:
    with fellow_writer(rooms.home):
        rooms.book.append("", [promoted(note)], expected_seq=rooms.book.head())
    told = [
        name
        for _, agent in rooms.book.agents()
        if note.skill in _skills(agent)
        for name, _ in rooms.book.deployments(agent.name)
        if name != note.source
    ]
    said = bullets(note.lessons_text)
    return Promotion(note.skill, note.note_id, note.agent, note.content_hash, said, tuple(told))


def _skills(agent: AgentProfile) -> frozenset[str]:
    return frozenset((agent.name, *agent.skills))


def _for(deployment: Deployment, held: SkillNote) -> SkillNote:
    """A promoted note as a deployment is told it: one of its own it knows, and only what held before it ends."""
    if held.source != deployment.id:
        return held
    return msgspec.structs.replace(held, lessons_text="", content_hash="")
