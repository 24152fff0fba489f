"""The hash that joins a note to the trades made under it."""

from tapebook.domain.canonical import sha256_hex


def hash_lessons_text(text: str) -> str:
    """Sixteen hex digits of the text with every run of white space as one space, so that two writers agree."""
    return sha256_hex(" ".join(text.split()).encode())[:16]


NO_LESSONS = hash_lessons_text("")
"""What decisions have that were told nothing: they can be compared with those that were."""
