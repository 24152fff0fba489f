"""Content keys are a function of the bytes alone; an archive is found by its address."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.archive.port import open_archive, put_content
from tapebook.domain.canonical import content_key
from tapebook.errors import Fix


def test_key_of_nothing() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert content_key(b"") == f"sha256/e3/{empty}"


@given(st.binary(), st.binary())
def test_two_contents_have_two_keys(one: bytes, other: bytes) -> None:
    assert (content_key(one) == content_key(other)) == (one == other)


@pytest.mark.parametrize("place", ["archive", "deep/archive", "{tmp}/elsewhere", "file://{tmp}/with%20blank"])
def test_a_path_or_a_file_address_is_a_folder(place: str, tmp_path: Path) -> None:
    archive = open_archive(place.format(tmp=tmp_path), home=tmp_path / "home", durable=True)
    key = put_content(archive, b"one")
    folder = {"archive": "home/archive", "deep/archive": "home/deep/archive", "{tmp}/elsewhere": "elsewhere"}
    assert (tmp_path / folder.get(place, "with blank") / f"{key}.z").is_file()
    assert archive.is_local


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("s4://bucket", "no archive speaks s4://: name a folder, or an address that begins abfs://"),
        (
            "file://host/archive",
            "the archive file://host/archive is no folder of this machine: write it like file:///srv/",
        ),
        ("file://", "the archive file:// is no folder of this machine: write it like file:///srv/archive"),
        ("folder://", "the archive folder:// names no place: write it like folder://…"),
    ],
)
def test_an_address_without_an_adapter_is_one_line(place: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(Fix) as caught:
        open_archive(place, home=tmp_path, durable=True)
    assert str(caught.value).startswith(says)
