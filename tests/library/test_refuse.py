"""Why a file is no document, in words."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tapebook.library.workspace import MAX_DOCUMENT_BYTES, body_problem, name_problem, printable_path, size_problem


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a\0b", "binary"),
        (b"\xff\xfe", "UTF-8"),
        (b"caf\xe9", "byte 3"),
        (b"x" * (MAX_DOCUMENT_BYTES + 1), "1,000,001 bytes"),
        (b"", None),
        ("é – ✓".encode(), None),
        (b"x" * MAX_DOCUMENT_BYTES, None),
    ],
)
def test_bytes_that_are_no_text_are_refused(content: bytes, says: str | None) -> None:
    problem = body_problem(content)
    assert problem is None if says is None else problem is not None and says in problem


@pytest.mark.parametrize("name", ["a\nb", "a\x1bb", "a\u202eb", "a\u200bb", "\udce9", "a\u2028b"])
def test_names_with_what_is_not_seen_are_refused(name: str) -> None:
    assert name_problem(name)
    assert printable_path(name).isprintable()


@pytest.mark.parametrize("name", ["SOUL.md", "Tagebuch März.md", "日誌.md", "a b (1).txt"])
def test_ordinary_names_are_not(name: str) -> None:
    assert name_problem(name) is None and printable_path(name) == name


@given(st.binary(max_size=300))
def test_what_is_accepted_can_be_read_as_text(content: bytes) -> None:
    if body_problem(content) is None:
        assert "\0" not in content.decode()


def test_a_small_file_is_not_too_large() -> None:
    assert size_problem(10) is None and size_problem(11, most=10) == "it has 11 bytes, and at most 10 are read"
