"""Appends to a journal in a file for ever and prints the number of each event once it is committed.

Run as `python -m tests.log.appender FILE`; the test kills it.
"""

import sys

from tapebook.clock import SystemClock
from tapebook.db import connect
from tapebook.log import Log
from tests.log.journal import PROJECTION, STREAMS, added, noted, open_journal, settled


def append_for_ever(path: str) -> None:
    """Three events per append, with rows."""
    db = connect(path, durable=True)
    open_journal(db)
    log = Log(db, [PROJECTION], clock=SystemClock())
    while True:
        seq = log.head(STREAMS[0]).seq
        drafts = [added(f"entry {seq}", tags=("a", "b")), settled(seq + 1), noted("x" * 500)]
        for event in log.append(STREAMS[0], drafts, expected_seq=seq):
            print(event.seq, flush=True)


if __name__ == "__main__":
    append_for_ever(sys.argv[1])
