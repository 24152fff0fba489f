"""Splits documents into chunks and turns new versions into a batch for the index.

1. `split_chunks` cuts a text at Markdown headings; a `#` inside a code fence is none, and a heading with nothing
   below it belongs to the next one. Long sections become windows of 400 to 800 tokens. Where they are cut depends
   on the words there and not on what stands above, so after a change the cuts fall where they fell. Front matter
   is no chunk. Lines are counted from 1, and a chunk's text is exactly what stands in its lines.
2. `IndexBatchBuilder` compares the chunks of a version with those of the one before: only new chunks are written,
   and only those that are gone end. A chunk is known by its kind, headings and text, and by how often the same
   came before it in its document; one that merely moved keeps its row and gets another place. Nothing is written
   here.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from zlib import crc32

import msgspec

from tapebook.domain.text import PIECE
from tapebook.errors import BadInput
from tapebook.search.index import RULES, DocumentVersion
from tapebook.search.store import MAX_CHUNK_LENGTH, NEVER, IndexBatch, IndexStore, LiveChunk, pack_posting
from tapebook.search.text import count_terms, passage_count, path_terms

# Large enough to hold a thought, small enough that several fit the citations of a packet.
MIN_CHUNK_TOKENS = 400
MAX_CHUNK_TOKENS = 800

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t\r]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_FRONT_MATTER_MARKS = {"---": ("---", "..."), "+++": ("+++",)}
# What may stand in YAML: a key, an item, a comment, or what goes on with the line before; words of prose do not.
_YAML_LINE = re.compile(r"[\w\"'.-][^:]*:(?:\s|$)|[-#\s\]}]|$")
# A title in quotes of either kind, or bare up to a comment; one that goes on below is none.
_TITLE = re.compile(r"""["']?title["']?\s*[:=]\s*(?:"([^"]*)"|'([^']*)'|([^\s#>|\[{"'][^#]*))""")
_MAX_STEP_BACK = 200
# A slice that begins up to so many signs early has no more tokens than a window.
_SLICE_TOKENS = MAX_CHUNK_TOKENS - _MAX_STEP_BACK


class DocumentChunk(msgspec.Struct, frozen=True):
    """Lines of a document, both ends included, and the headings above them that do not stand in them."""

    start_line: int
    end_line: int
    text: str
    headings: tuple[str, ...] = ()


class _Section:
    """The lines below a heading, and which of them lie in a code fence."""

    def __init__(self, start: int, headings: tuple[str, ...] = ()) -> None:
        self.start = start
        self.headings = headings
        self.lines: list[str] = []
        self.fenced: list[bool] = []
        self.says_something = False

    def add(self, line: str, *, is_heading: bool, is_fenced: bool) -> None:
        """One more line."""
        self.lines.append(line)
        self.fenced.append(is_fenced)
        self.says_something |= not is_heading and bool(line.strip())


def split_chunks(text: str, *, front_matter: bool) -> list[DocumentChunk]:
    """The chunks of a text, in order; none of blanks alone, and none of its front matter, if it may have one."""
    lines = text.split("\n")
    skipped, title = _front_matter(lines) if front_matter else (0, "")
    return [chunk for section in _sections(lines, skipped, title) for chunk in _section_windows(section)]


def _front_matter(lines: Sequence[str]) -> tuple[int, str]:
    """How many lines front matter takes at the top, and the title it gives; 0 without any."""
    mark = lines[0].removeprefix("\ufeff").rstrip()
    ends = (at for at, line in enumerate(lines[1:], start=1) if line.rstrip() in _FRONT_MATTER_MARKS.get(mark, ()))
    end = next(ends, 1)
    inside = [line.rstrip() for line in lines[1:end]]
    if not any(inside) or (mark == "---" and not all(map(_YAML_LINE.match, inside))):
        return 0, ""
    title = next(filter(None, map(_TITLE.match, inside)), None)
    return end + 1, next(filter(None, title.groups()), "").strip() if title else ""


def front_matter_value(text: str, key: str) -> str | None:
    """What the front matter of a document says of a key, without quotes; None when it says nothing."""
    lines = text.split("\n")
    for line in lines[1 : _front_matter(lines)[0]]:
        name, mark, value = line.partition("=" if lines[0].startswith("+++") else ":")
        if mark and name.strip().strip("\"'") == key:
            return value.partition(" #")[0].strip().strip("\"'") or None
    return None


def _sections(lines: Sequence[str], skipped: int, title: str) -> Iterator[_Section]:
    above: list[tuple[int, str]] = [(0, title)] if title else []
    section = _Section(skipped + 1, tuple(title for _, title in above))
    for number, (line, heading, is_fenced) in enumerate(_read_lines(lines[skipped:]), start=skipped + 1):
        if heading is not None:
            while above and above[-1][0] >= heading[0]:
                above.pop()
            above.append(heading)
            if section.says_something:
                yield section
                section = _Section(number)
            section.headings = tuple(dict.fromkeys(title for _, title in above if title))
        section.add(line, is_heading=heading is not None, is_fenced=is_fenced)
    yield section


def _read_lines(lines: Iterable[str]) -> Iterator[tuple[str, tuple[int, str] | None, bool]]:
    """Each line with the heading it is, if it is one, and whether it lies inside a code fence."""
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            yield line, None, True
            closes = mark is not None and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
        elif mark is not None and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            yield line, None, False
        else:
            found = _HEADING.match(line) if "#" in line[:10] else None
            yield line, (len(found[1]), (found[2] or "").strip()) if found else None, False


def _section_windows(section: _Section) -> Iterator[DocumentChunk]:
    first = 0
    while first < len(section.lines):
        end = _window_end(section, first)
        if end == first:
            yield from _line_slices(section, first)
            end += 1
        else:
            yield from _trimmed_chunk(section, first, end)
        first = end


def _window_end(section: _Section, first: int) -> int:
    """Where the window that begins at a line ends; there itself when the line is too long for any."""
    total, enough = 0, first
    for end in range(first, len(section.lines)):
        total += _line_tokens(section.lines[end])
        if total > MAX_CHUNK_TOKENS:
            return _best_cut(section, min(enough + 1, end), end) if end > first else first
        if total < MIN_CHUNK_TOKENS:
            enough = end + 1
    return len(section.lines)


def _line_tokens(line: str) -> int:
    return len(PIECE.findall(line)) + 1


def _best_cut(section: _Section, low: int, high: int) -> int:
    """The place among those possible to end a window at: before a line whose fingerprint is the smallest."""
    places = range(low, high + 1)
    between = [at for at in places if not section.lines[at - 1].strip() and not section.fenced[at]]
    outside = [at for at in places if not section.fenced[at]]
    return min(between or outside or places, key=lambda at: (crc32(section.lines[at].encode(errors="replace")), at))


def _line_slices(section: _Section, at: int) -> Iterator[DocumentChunk]:
    line, number, start = section.lines[at], section.start + at, 0
    ends = [piece.end() for piece in PIECE.finditer(line)]
    for end in [*ends[_SLICE_TOKENS - 1 :: _SLICE_TOKENS], len(line)]:
        # Back to a blank, if there is one near: a word is not cut in two.
        blank = line.rfind(" ", max(start + 1, end - _MAX_STEP_BACK), end) if end < len(line) else -1
        cut = end if blank < 0 else blank
        if line[start:cut].strip():
            yield DocumentChunk(number, number, line[start:cut], _headings_not_in(section, line[start:cut]))
        start = cut


def _trimmed_chunk(section: _Section, first: int, end: int) -> Iterator[DocumentChunk]:
    while first < end and not section.lines[first].strip():
        first += 1
    while end > first and not section.lines[end - 1].strip():
        end -= 1
    if first < end:
        text = "\n".join(section.lines[first:end])
        yield DocumentChunk(section.start + first, section.start + end - 1, text, _headings_not_in(section, text))


def _headings_not_in(section: _Section, text: str) -> tuple[str, ...]:
    return tuple(heading for heading in section.headings if heading not in text)


_MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
_MAX_KINDS = 255


class IndexBatchBuilder:
    """Takes in versions behind the head of a store, one after the other."""

    def __init__(self, store: IndexStore, *, rules: int = RULES) -> None:
        self._store = store
        self._rules = rules
        self.batch = IndexBatch(store.head())
        self.kept = 0
        self._scopes = store.scopes()
        self._kinds = store.kinds()
        self._next_document = store.newest_document() + 1
        self._documents: dict[tuple[int, str], int] = {}
        self._standing: dict[int, dict[bytes, LiveChunk]] = {}
        self._rows: dict[int, int] = {}

    @property
    def new_chunk_count(self) -> int:
        """How many chunks are new."""
        return len(self.batch.chunks)

    @property
    def version_count(self) -> int:
        """How many versions were taken in."""
        return len(self.batch.bodies)

    def add_version(self, version: DocumentVersion, body: bytes) -> None:
        """One version with its body; the body of a document that was removed is empty."""
        if version.seq <= self.batch.seq:
            raise BadInput(f"document version {version.seq} of {version.path} comes after {self.batch.seq}: sort them")
        scope_id = self._scope(version.scope)
        document = self._document(scope_id, version.path)
        before = self._live_chunks_of(document)
        text = body.decode("utf-8", errors="replace") if version.sha256 else ""
        has_head = self._rules > 1 and version.path.lower().endswith(_MARKDOWN_SUFFIXES)
        after = dict(_chunks_by_identity(version.kind, split_chunks(text, front_matter=has_head)))
        for identity in [each for each in before if each not in after]:
            self.batch.ended.setdefault(scope_id, {})[before.pop(identity).row] = version.seq
        for identity, chunk in after.items():
            known = before.get(identity)
            if known is None:
                row = self._add(version, chunk, identity, scope_id=scope_id, document=document)
            else:
                row = known.row
            if known is None or known.start_line != chunk.start_line:
                self.batch.places.append((scope_id, row, version.seq, chunk.start_line, chunk.end_line))
            self.kept += known is not None
            before[identity] = LiveChunk(row, identity, chunk.start_line, chunk.end_line)
        self.batch.bodies.append((document, version.seq, version.sha256))
        self.batch.seq = version.seq

    def _add(
        self, version: DocumentVersion, chunk: DocumentChunk, identity: bytes, *, scope_id: int, document: int
    ) -> int:
        row = self._rows.get(scope_id)
        if row is None:
            row = len(self._store.rows(scope_id))
        self._rows[scope_id] = row + 1
        headings = "\n".join(chunk.headings)
        self.batch.chunks.append((scope_id, row, document, identity, 1, headings, chunk.text))
        term_counts = count_terms(f"{headings}\n{chunk.text}", unspaced=self._rules > 2)
        length = min(sum(term_counts.values()), MAX_CHUNK_LENGTH)
        for term in path_terms(version.path):
            term_counts.setdefault(term, 1)
        postings = self.batch.postings[scope_id]
        for term, times in term_counts.items():
            postings[term].append(pack_posting(row, times))
        numbers = (version.seq, NEVER, document, length, self._kind(version.kind), passage_count(chunk.text))
        self.batch.rows.setdefault(scope_id, []).append(numbers)
        return row

    def _scope(self, scope: str) -> int:
        if scope not in self._scopes:
            self._scopes[scope] = len(self._scopes) + 1
            self.batch.scopes.append((self._scopes[scope], scope))
        return self._scopes[scope]

    def _kind(self, kind: str) -> int:
        if kind not in self._kinds:
            if len(self._kinds) >= _MAX_KINDS:
                raise BadInput(f"documents have over {_MAX_KINDS} kinds: {kind!r} is one too many")
            self._kinds[kind] = len(self._kinds) + 1
            self.batch.kinds.append((self._kinds[kind], kind))
        return self._kinds[kind]

    def _document(self, scope_id: int, path: str) -> int:
        key = (scope_id, path)
        if key not in self._documents:
            known = self._store.document_number(*key)
            if known is None:
                known, self._next_document = self._next_document, self._next_document + 1
                self.batch.documents.append((known, scope_id, path))
            self._documents[key] = known
        return self._documents[key]

    def _live_chunks_of(self, document: int) -> dict[bytes, LiveChunk]:
        if document not in self._standing:
            self._standing[document] = {each.identity: each for each in self._store.live_chunks(document)}
        return self._standing[document]


def _chunks_by_identity(kind: str, found: list[DocumentChunk]) -> Iterator[tuple[bytes, DocumentChunk]]:
    times: Counter[bytes] = Counter()
    for chunk in found:
        content = "\x00".join((kind, *chunk.headings, chunk.text))
        digest = sha256(content.encode(errors="replace")).digest()[:16]
        yield digest + times[digest].to_bytes(4, "big"), chunk
        times[digest] += 1
