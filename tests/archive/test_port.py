"""Content keys: a function of the bytes alone."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.archive.port import content_key


def test_key_of_nothing() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert content_key(b"") == f"sha256/e3/{empty}"


@given(st.binary(), st.binary())
def test_two_contents_have_two_keys(one: bytes, other: bytes) -> None:
    assert (content_key(one) == content_key(other)) == (one == other)
