"""A document as chunks: one per heading, and windows of 400 to 800 tokens where that is too long.

1. `_sections` cuts at Markdown headings; a `#` inside a code fence is none, and a heading with nothing below it belongs
   to the next one. A text without headings is one section.
2. `_windows` cuts a long section, between paragraphs if it can, between lines if it must. Which of the possible places
   it takes depends on the words there and not on what stands above: after a change the cuts fall where they fell.
3. `_slices` cuts a line that is longer than a window by itself; its chunks are all of that line.

The front matter of a Markdown file (YAML between `---`, TOML between `+++`) is about the document and no part of it: it
is no chunk, and its title stands above all headings.

Lines are counted from 1 and end at a line feed. A chunk's text is exactly what stands in its lines.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

import msgspec

from tapebook.domain.tokens import PIECE

SMALLEST = 400
LARGEST = 800

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t\r]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADS = {"---": ("---", "..."), "+++": ("+++",)}
# What may stand in YAML: a key, an item, a comment, or what goes on with the line before; words of prose do not.
_YAML = re.compile(r"[\w\"'.-][^:]*:(?:\s|$)|[-#\s\]}]|$")
# A title in quotes of either kind, or bare up to a comment; one that goes on below is none.
_TITLE = re.compile(r"""["']?title["']?\s*[:=]\s*(?:"([^"]*)"|'([^']*)'|([^\s#>|\[{"'][^#]*))""")
_NEAR = 200
# A slice that begins up to so many signs early has no more tokens than a window.
_STEP = LARGEST - _NEAR


class Chunk(msgspec.Struct, frozen=True):
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


def chunks(text: str, *, front_matter: bool) -> list[Chunk]:
    """The chunks of a text, in order; none of blanks alone, and none of its front matter, if it may have one."""
    lines = text.split("\n")
    skipped, title = _front_matter(lines) if front_matter else (0, "")
    return [chunk for section in _sections(lines, skipped, title) for chunk in _windows(section)]


def _front_matter(lines: Sequence[str]) -> tuple[int, str]:
    """How many lines front matter takes at the top, and the title it gives; 0 without any."""
    mark = lines[0].removeprefix("\ufeff").rstrip()
    ends = (at for at, line in enumerate(lines[1:], start=1) if line.rstrip() in _HEADS.get(mark, ()))
    end = next(ends, 1)
    inside = [line.rstrip() for line in lines[1:end]]
    if not any(inside) or (mark == "---" and not all(map(_YAML.match, inside))):
        return 0, ""
    title = next(filter(None, map(_TITLE.match, inside)), None)
    return end + 1, next(filter(None, title.groups()), "").strip() if title else ""


def _sections(lines: Sequence[str], skipped: int, title: str) -> Iterator[_Section]:
    above: list[tuple[int, str]] = [(0, title)] if title else []
    section = _Section(skipped + 1, tuple(title for _, title in above))
    for number, (line, heading, is_fenced) in enumerate(_read(lines[skipped:]), start=skipped + 1):
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


def _read(lines: Iterable[str]) -> Iterator[tuple[str, tuple[int, str] | None, bool]]:
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


def _windows(section: _Section) -> Iterator[Chunk]:
    first = 0
    while first < len(section.lines):
        end = _cut(section, first)
        if end == first:
            yield from _slices(section, first)
            end += 1
        else:
            yield from _chunk(section, first, end)
        first = end


def _cut(section: _Section, first: int) -> int:
    """Where the window that begins at a line ends; there itself when the line is too long for any."""
    total, enough = 0, first
    for end in range(first, len(section.lines)):
        total += _tokens(section.lines[end])
        if total > LARGEST:
            return _best(section, min(enough + 1, end), end) if end > first else first
        if total < SMALLEST:
            enough = end + 1
    return len(section.lines)


def _tokens(line: str) -> int:
    return len(PIECE.findall(line)) + 1


def _best(section: _Section, low: int, high: int) -> int:
    """The place among those possible to end a window at: before a line whose fingerprint is the smallest."""
    places = range(low, high + 1)
    between = [at for at in places if not section.lines[at - 1].strip() and not section.fenced[at]]
    outside = [at for at in places if not section.fenced[at]]
    return min(between or outside or places, key=lambda at: (crc32(section.lines[at].encode(errors="replace")), at))


def _slices(section: _Section, at: int) -> Iterator[Chunk]:
    line, number, start = section.lines[at], section.start + at, 0
    ends = [piece.end() for piece in PIECE.finditer(line)]
    for end in [*ends[_STEP - 1 :: _STEP], len(line)]:
        # Back to a blank, if there is one near: a word is not cut in two.
        blank = line.rfind(" ", max(start + 1, end - _NEAR), end) if end < len(line) else -1
        cut = end if blank < 0 else blank
        if line[start:cut].strip():
            yield Chunk(number, number, line[start:cut], _unsaid(section, line[start:cut]))
        start = cut


def _chunk(section: _Section, first: int, end: int) -> Iterator[Chunk]:
    while first < end and not section.lines[first].strip():
        first += 1
    while end > first and not section.lines[end - 1].strip():
        end -= 1
    if first < end:
        text = "\n".join(section.lines[first:end])
        yield Chunk(section.start + first, section.start + end - 1, text, _unsaid(section, text))


def _unsaid(section: _Section, text: str) -> tuple[str, ...]:
    return tuple(heading for heading in section.headings if heading not in text)
