"""The log lines of a process: events with fields, for people or as JSON, written to stderr at the edges alone.

Whoever logs uses the standard library: the message names the event, and its values are fields of it.

    logging.getLogger("tapebook.desk").warning("role ended", extra={"fields": {"role": "worker", "code": 1}})

    2026-06-04T12:00:00.000Z WARNING tapebook.desk role ended role=worker code=1
    {"at":"2026-06-04T12:00:00.000Z","level":"warning","logger":"tapebook.desk","event":"role ended","role":"worker",…}

Nothing is written unless somebody asks for it: `TAPEBOOK_LOG` names a level, `json`, or both (`debug,json`), and
`--log-json` asks for JSON. A program that uses tapebook as a library sets up the logger `tapebook` itself.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from tapebook.domain.text import escape_hidden_characters, redact_passwords
from tapebook.domain.units import iso_text
from tapebook.errors import ConfigError

LOG_VARIABLE = "TAPEBOOK_LOG"
LEVELS = ("debug", "info", "warning", "error")
_ROOT = "tapebook"
_PLAIN_VALUE = re.compile(r"[\x21\x23-\x3c\x3e-\x7e]+")
_LOG_LINE = re.compile(
    r'\{"at":"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) tapebook\b'
)


class _EventFormatter(logging.Formatter):
    """One event as one line, without passwords of addresses and without characters that steer a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        at, fields = iso_text(int(record.created * 1000)), dict(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields |= {"error": f"{type(error).__name__}: {error}"}
        if not self.as_json:
            pairs = [f"{name}={_human_value(value)}" for name, value in fields.items() if value not in (None, "")]
            words = " ".join([at, record.levelname, record.name, " ".join(record.getMessage().split()), *pairs])
            return escape_hidden_characters(redact_passwords(words))
        named = {"at": at, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
        text = json.dumps(named | fields, ensure_ascii=False, separators=(",", ":"), default=str)
        return escape_hidden_characters(redact_passwords(text))


def _human_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def configure_logging(*, as_json: bool = False, environ: Mapping[str, str] | None = None) -> None:
    """Sets up the log lines of this process as `TAPEBOOK_LOG` and `--log-json` ask for; ConfigError for other words.

    JSON without a level means `info`: everything that a person would be shown.
    """
    level, wants_json = _read_variable((os.environ if environ is None else environ).get(LOG_VARIABLE, ""))
    as_json = as_json or wants_json
    logger = logging.getLogger(_ROOT)
    for before in [each for each in logger.handlers if isinstance(each.formatter, _EventFormatter)]:
        logger.removeHandler(before)
    if level is None and not as_json:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_EventFormatter(as_json=as_json))
    logger.addHandler(handler)
    logger.setLevel((level or "info").upper())


def is_logging() -> bool:
    """Whether this process was asked to log."""
    return bool(_formatters())


def log_words() -> list[str]:
    """The options that give a process of ours the same format; its level comes with the environment."""
    return ["--log-json"] if any(formatter.as_json for formatter in _formatters()) else []


def _formatters() -> list[_EventFormatter]:
    found = (handler.formatter for handler in logging.getLogger(_ROOT).handlers)
    return [formatter for formatter in found if isinstance(formatter, _EventFormatter)]


def relay_log_line(line: str) -> bool:
    """Writes on what is a log line of a process of ours, as it is; False when it is none."""
    if not _LOG_LINE.match(line):
        return False
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
    return True


class Progress(Protocol):
    """How something that runs for long goes: what is wrong just now, if anything, and what is to be said once."""

    @property
    def problem(self) -> str | None:
        """What is wrong."""
        ...

    @property
    def notice(self) -> str | None:
        """What is to be said."""
        ...


ProgressT = TypeVar("ProgressT", bound=Progress)


def log_problems(
    logger: logging.Logger, report: Callable[[ProgressT], None], **fields: str
) -> Callable[[ProgressT], None]:
    """A `report` that logs a problem when it begins and when it has ended, and each notice, before it is passed on."""
    last: str | None = None

    def report_and_log(progress: ProgressT) -> None:
        nonlocal last
        problem = progress.problem
        if problem != last and problem is not None:
            logger.warning("problem", extra={"fields": {**fields, "text": problem}})
        elif problem != last:
            logger.info("problem ended", extra={"fields": {**fields, "text": last}})
        if progress.notice:
            logger.info("notice", extra={"fields": {**fields, "text": progress.notice}})
        last = problem
        report(progress)

    return report_and_log


def _read_variable(text: str) -> tuple[str | None, bool]:
    level, as_json = None, False
    for word in (part.strip().lower() for part in text.split(",") if part.strip()):
        if word == "json":
            as_json = True
        elif word in LEVELS and level is None:
            level = word
        else:
            may_be = f"one of {', '.join(LEVELS)}, or json, or both such as info,json"
            raise ConfigError(f"{LOG_VARIABLE} in the environment is {text!r} but must be {may_be}")
    return level, as_json


def wants_colours() -> bool:
    """Whether a terminal may be given colours: NO_COLOR, with any value, says that it may not."""
    return not os.environ.get("NO_COLOR")
