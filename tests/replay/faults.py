"""Ends a process, or the run inside one, just before its N-th act: an SQL statement, or a change of a folder.

apsw calls the tracer before each single statement of each connection, those of a script and those
that open and close a transaction too. psycopg is called through three methods, which are wrapped.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import apsw
import psycopg

APSW_SAVEPOINT = "_apsw-"
# A statement, a statement of many rows, and what opens and closes a transaction.
SERVER_CALLS = ((psycopg.Cursor, "execute"), (psycopg.Cursor, "executemany"), (psycopg.Connection, "_exec_command"))
FOLDER_CHANGES = ("link", "mkdir", "rename", "replace", "unlink")


class Killed(BaseException):
    """Not an Exception, so that nothing may catch it and go on."""


class Fuse:
    """Counts acts, and at one of them does something else."""

    def __init__(self, at: int = 0, blow: Callable[[], None] = lambda: None) -> None:
        self._at = at
        self._blow = blow
        self.acts: list[str] = []

    @property
    def blown(self) -> bool:
        """Whether its act was reached."""
        return 0 < self._at <= len(self.acts)

    def burn(self, act: str) -> None:
        """One act is about to be done; after the one that blew, none is: the dead do not clear up."""
        self.acts.append(act)
        if self.blown:
            self._blow()


def stop() -> None:
    """Ends the run with an error nobody catches."""
    raise Killed


def die() -> None:
    """Ends the process with the signal that nobody can catch."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def lit(fuse: Fuse) -> Iterator[None]:
    """Every statement of a connection that is opened inside, and every change of a folder, burns the fuse."""

    def trace(cursor: apsw.Cursor, statement: str, values: Any) -> bool:
        # The savepoints around several rows are apsw's own, and it cannot be interrupted in them; the rows between can.
        if APSW_SAVEPOINT not in statement:
            fuse.burn(statement)
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.set_exec_trace(trace)

    apsw.connection_hooks.append(hook)
    try:
        with ExitStack() as patches:
            for name in FOLDER_CHANGES:
                patches.enter_context(mock.patch.object(os, name, _burning(fuse, name)))
            for owner, name in SERVER_CALLS:
                patches.enter_context(mock.patch.object(owner, name, _told(fuse, owner, name)))
            patches.enter_context(_hung_up())
            yield
    finally:
        apsw.connection_hooks.remove(hook)


@contextmanager
def until_blown(fuse: Fuse) -> Iterator[None]:
    """Whatever is raised after a fuse has blown is the end that was wanted."""
    try:
        with lit(fuse):
            yield
    except BaseException:
        if not fuse.blown:
            raise


@contextmanager
def _hung_up() -> Iterator[None]:
    """What was connected inside is not connected afterwards, as after the end of a process."""
    made: list[psycopg.Connection[Any]] = []
    connect = psycopg.connect

    def connected(*places: Any, **options: Any) -> psycopg.Connection[Any]:
        made.append(connect(*places, **options))
        return made[-1]

    with mock.patch.object(psycopg, "connect", connected):
        try:
            yield
        finally:
            for connection in made:
                connection.close()


def _told(fuse: Fuse, owner: Any, name: str) -> Callable[..., Any]:
    call = getattr(owner, name)

    def told(self: Any, statement: Any, *values: Any, **options: Any) -> Any:
        fuse.burn(statement.decode() if isinstance(statement, bytes) else str(statement))
        return call(self, statement, *values, **options)

    return told


def _burning(fuse: Fuse, name: str) -> Callable[..., None]:
    change = getattr(os, name)

    def burning(*paths: Any, **options: Any) -> None:
        fuse.burn(f"{name} {paths[-1]}")
        change(*paths, **options)

    return burning
