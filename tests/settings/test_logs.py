"""Log lines: events with fields, for people or as JSON, and nothing unless somebody asks."""

import json
import logging
from collections.abc import Iterator

import msgspec
import pytest

from tapebook.errors import ConfigError
from tapebook.settings.logs import configure_logging, is_logging, log_problems, log_words, relay_log_line

LOG = logging.getLogger("tapebook.test")
MOMENT = 1_780_574_400.125


class Said(msgspec.Struct):
    """How something goes."""

    problem: str | None = None
    notice: str | None = None


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    """Leaves no handler behind."""
    yield
    configure_logging(environ={})


def log(message: str, level: int = logging.WARNING, **fields: object) -> None:
    """Logs an event at a fixed moment."""
    record = LOG.makeRecord(LOG.name, level, "", 0, message, (), None, extra={"fields": fields})
    record.created = MOMENT
    if LOG.isEnabledFor(level):
        LOG.handle(record)


def test_nothing_is_written_unless_somebody_asks(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(environ={})
    log("role ended", role="worker")
    assert not is_logging() and log_words() == []
    assert capsys.readouterr().err == ""


def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(environ={"TAPEBOOK_LOG": "info"})
    log("role ended", role="worker", code=1, cause="lessons: KeyError: 'x'", symbol="", run=None)
    log("silent", logging.DEBUG)
    fields = "role=worker code=1 cause=\"lessons: KeyError: 'x'\""
    assert capsys.readouterr().err == f"2026-06-04T12:00:00.125Z WARNING tapebook.test role ended {fields}\n"
    assert is_logging() and log_words() == []


@pytest.mark.parametrize(("variable", "flag"), [("json", False), ("", True), ("info", True), ("info, JSON", False)])
def test_lines_of_json(variable: str, flag: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(as_json=flag, environ={"TAPEBOOK_LOG": variable})
    log("role ended", logging.INFO, role="worker", code=1, text="two\nlines \x1b[31m")
    (line,) = capsys.readouterr().err.splitlines()
    named = {"at": "2026-06-04T12:00:00.125Z", "level": "info", "logger": "tapebook.test", "event": "role ended"}
    assert json.loads(line) == named | {"role": "worker", "code": 1, "text": "two\nlines \x1b[31m"}
    assert "\x1b" not in line and log_words() == ["--log-json"]


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_level_is_where_lines_begin(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(environ={"TAPEBOOK_LOG": f"{level},json"})
    for each in ("debug", "info", "warning", "error"):
        log(each, getattr(logging, each.upper()))
    written = [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()]
    levels = ["debug", "info", "warning", "error"]
    assert written == levels[levels.index(level) :]


@pytest.mark.parametrize("wrong", ["loud", "info,debug", "json,text", "1"])
def test_other_words_are_one_line(wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure_logging(environ={"TAPEBOOK_LOG": wrong})
    may_be = "one of debug, info, warning, error, or json, or both such as info,json"
    assert str(caught.value) == f"TAPEBOOK_LOG in the environment is {wrong!r} but must be {may_be}"


@pytest.mark.parametrize("form", ["info", "json"])
def test_a_line_steers_nothing_and_tells_no_password(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(environ={"TAPEBOOK_LOG": form})
    log("problem\nof two lines", text="postgresql://me:secret@host/db is away \x1b[2J\u202e", stray="\x07")
    try:
        raise ValueError("it\nbroke")
    except ValueError:
        LOG.exception("failure")
    first, second = capsys.readouterr().err.splitlines()
    assert "secret" not in first and not {"\x1b", "\u202e", "\x07"} & set(first)
    assert "ValueError: it\\nbroke" in second
    assert relay_log_line(first) and relay_log_line(second)
    assert capsys.readouterr().err == f"{first}\n{second}\n"


@pytest.mark.parametrize("line", ["worker made 3 decisions", "warning: the disk is full", '{"event":"notice"}', ""])
def test_what_is_no_log_line_is_not_relayed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not relay_log_line(line)
    assert capsys.readouterr().err == ""


def test_a_problem_is_logged_when_it_begins_and_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(environ={"TAPEBOOK_LOG": "json"})
    passed: list[Said] = []
    report = log_problems(LOG, passed.append, role="worker")
    said = [Said(), Said("full disk"), Said("full disk"), Said("no leases"), Said(notice="back"), Said()]
    for each in said:
        report(each)
    assert passed == said
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["event"], line["text"], line["role"]) for line in lines] == [
        ("warning", "problem", "full disk", "worker"),
        ("warning", "problem", "no leases", "worker"),
        ("info", "problem ended", "no leases", "worker"),
        ("info", "notice", "back", "worker"),
    ]
