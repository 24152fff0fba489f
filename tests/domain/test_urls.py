"""Addresses without their passwords."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.text import redact_driver_message, redact_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://bob:secret@host:5432/db", "postgresql://…@host:5432/db"),
        ("postgres://bob:se/cr@et@host/db", "postgres://…@host/db"),
        ("cannot open POSTGRESQL://bob:secret@host: no", "cannot open POSTGRESQL://…@host: no"),
        ("https://bob:secret@example.org/a@b", "https://…@example.org/a@b"),
        (
            "postgresql://host/db?password=secret&sslpassword=other&a=b",
            "postgresql://host/db?password=…&sslpassword=…&a=b",
        ),
        ("host=h password='se cret' user=bob", "host=h password=… user=bob"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("a@b, https://example.org/x", "a@b, https://example.org/x"),
    ],
)
def test_user_and_password_are_taken_out(text: str, shown: str) -> None:
    assert redact_passwords(text) == shown
    assert redact_passwords(shown) == shown


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1))
def test_no_password_of_a_database_gets_through(password: str) -> None:
    assert redact_passwords(f"x postgresql://bob:{password}@host/db y") == "x postgresql://…@host/db y"


def test_pieces_a_driver_takes_for_something_else_are_hidden() -> None:
    url = "postgresql://bob:pa/ss@host/db"
    assert redact_driver_message(url, 'invalid integer value "pa" for option "port"') == (
        'invalid integer value "…" for option "port"'
    )
    assert redact_driver_message(url, "failed to resolve host 'pa'") == "failed to resolve host '…'"
    odd = "postgresql://bob:pa@ss@host/db"
    assert redact_driver_message(odd, "failed to resolve host 'ss@host'") == "failed to resolve host '…@host'"
    assert redact_driver_message(url, 'no password for user "bob"') == 'no password for user "bob"'
    assert redact_driver_message("postgresql://host/db", 'no database "db"') == 'no database "db"'
