"""Chunks are the lines of a document: all of them, none twice, each under its headings and none too long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.text import text_tokens
from tapebook.search.indexing import MAX_CHUNK_TOKENS, MIN_CHUNK_TOKENS, DocumentChunk, split_chunks

LINES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *("", " ", "# One", "## Two", "### Three ###", "#", "#no heading", "   # Indented", "    # code", "```"),
            *("~~~", "````", "``` py", "```` x`y", "- item", "a | b", "\r", "## Two\r", "words " * 300, "x" * 4000),
        ]
    ),
)
DOCUMENTS = st.lists(LINES, max_size=30).map("\n".join)


@given(DOCUMENTS)
def test_every_word_stands_in_exactly_one_chunk(text: str) -> None:
    lines, found = text.split("\n"), split_chunks(text, front_matter=True)
    for chunk in found:
        stands = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text.strip() and chunk.text in stands
        assert chunk.start_line == chunk.end_line or chunk.text == stands
        assert text_tokens(chunk.text) <= MAX_CHUNK_TOKENS
    assert "".join("".join(chunk.text.split()) for chunk in found) == "".join(text.split())
    starts = [chunk.start_line for chunk in found]
    assert starts == sorted(starts)


def paragraphs(count: int) -> list[str]:
    """Paragraphs of about forty tokens, each with a word of its own."""
    return [f"Paragraph number{at} says that {'markets move and stops hold ' * 6}end." for at in range(count)]


def test_a_long_section_is_cut_between_paragraphs() -> None:
    text = "# Rules\n\n" + "\n\n".join(paragraphs(120))
    found = split_chunks(text, front_matter=True)
    assert len(found) > 4
    assert all(MIN_CHUNK_TOKENS <= text_tokens(chunk.text) <= MAX_CHUNK_TOKENS for chunk in found[:-1])
    assert all(chunk.text.startswith(("# Rules", "Paragraph")) and chunk.text.endswith("end.") for chunk in found)
    # Only the first says the heading itself.
    assert [chunk.headings for chunk in found] == [(), *[("Rules",)] * (len(found) - 1)]


@pytest.mark.parametrize("at", [0, 30, 77, 119])
def test_a_change_touches_the_chunks_around_it(at: int) -> None:
    before, after = paragraphs(120), paragraphs(120)
    after[at] += " And one more sentence, which was not there."
    texts = [{chunk.text for chunk in split_chunks("\n\n".join(each), front_matter=True)} for each in (before, after)]
    assert len(texts[1] - texts[0]) <= 4 < len(texts[1])


def test_headings_lead_down_to_a_chunk() -> None:
    text = "intro\n\n# A\n\na\n\n## B\n\nb\n\n#### C\n\nc\n\n## D\n\nd\n\n# E\n\n## F\n\nf"
    assert [(chunk.text.split()[-1], chunk.headings) for chunk in split_chunks(text, front_matter=True)] == [
        *[("intro", ()), ("a", ()), ("b", ("A",)), ("c", ("A", "B")), ("d", ("A",)), ("f", ())]
    ]
    assert split_chunks(text, front_matter=True)[-1] == DocumentChunk(19, 23, "# E\n\n## F\n\nf")


@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_a_heading_in_a_code_fence_is_none(fence: str) -> None:
    text = f"# Run\n\n{fence}sh\n# not a heading\nls\n{fence}\n\n# Next\n\nmore"
    assert [chunk.text.split("\n")[0] for chunk in split_chunks(text, front_matter=True)] == ["# Run", "# Next"]
    # One that is never closed goes on to the end; a shorter one does not close it.
    assert len(split_chunks(f"# a\n\n{fence}{fence[0]}\n{fence}\n# b", front_matter=True)) == 1


def test_a_fence_is_cut_only_when_there_is_no_other_place() -> None:
    code = "```\n" + "\n\n".join("x = 1" for _ in range(60)) + "\n```"
    text = "\n\n".join([*paragraphs(8), code, *paragraphs(8)])
    assert any(code in chunk.text for chunk in split_chunks(text, front_matter=True))


def test_a_very_long_line_is_cut_between_words() -> None:
    line = "margin of safety " * 20_000
    found = split_chunks(f"above\n{line}\nbelow", front_matter=True)
    long = [chunk for chunk in found if chunk.start_line == 2]
    assert len(long) > 20 and all(chunk.end_line == 2 for chunk in long)
    assert all(re.match(r"\s?(margin|of|safety)\b", chunk.text) for chunk in long)
    assert "".join(chunk.text for chunk in long).split() == line.split()


def test_nothing_is_no_chunk() -> None:
    assert split_chunks("", front_matter=True) == split_chunks(" \n\t\n", front_matter=True) == []


@pytest.mark.parametrize(
    "head",
    [
        "---\ntitle: Feed outages\ntags: [BTC, breakout]\n---",
        '---\ntitle: "Feed outages"  # shown above\ntags:\n  - BTC\n\n# a comment\nweight: 3\n...',
        "+++\ntitle = 'Feed outages'\n[params]\nweight = 10\n+++",
        "\ufeff---\r\ntitle: Feed outages\r\n---\r",
    ],
)
def test_front_matter_is_no_chunk_and_gives_the_title(head: str) -> None:
    lines = head.count("\n") + 1
    found = split_chunks(f"{head}\n\nClose what is open.\n\n# Later\n\nWait.", front_matter=True)
    assert found == [
        DocumentChunk(lines + 2, lines + 2, "Close what is open.", ("Feed outages",)),
        DocumentChunk(lines + 4, lines + 6, "# Later\n\nWait.", ("Feed outages",)),
    ]
    assert split_chunks(head, front_matter=True) == []
    # Documents that were indexed before keep it.
    assert "Feed outages" in split_chunks(head, front_matter=False)[0].text


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule, then words.\n\n---\n\nMore.",
        "---\ntitle: never closed\n\nWords.",
        "\n---\ntitle: not at the top\n---\nWords.",
        "---\n---\nWords.",
        "+++\ntitle = 1",
        "---- \ntitle: four\n----\nWords.",
        "Words\n---\ntitle: x\n---",
    ],
)
def test_rules_of_markdown_are_no_front_matter(text: str) -> None:
    assert split_chunks(text, front_matter=True) == split_chunks(text, front_matter=False)


def test_a_title_that_is_also_a_heading_is_said_once() -> None:
    (one, two) = split_chunks("---\ntitle: Sizing\n---\n# Sizing\n\nSmall.\n\n## More\n\nSmaller.", front_matter=True)
    assert one.headings == () and two.headings == ("Sizing",)
    assert [each.headings for each in split_chunks("---\ntitle: >\n  folded\n---\nWords.", front_matter=True)] == [()]
