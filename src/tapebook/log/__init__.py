"""The log is the truth: hash-chained streams of events, and the tables that are computed from them.

takes:  drafts of events with canonical bodies
gives:  events with a sequence, two times and a hash; projections written in the same transaction
never:  knows what a trade is; lets two processes write one stream
"""

from tapebook.log.event import Draft, Event, LateDraft, Projection, Stream, Write
from tapebook.log.keyed import KeyedWrite
from tapebook.log.lease import Lease, Leases
from tapebook.log.store import Head, Log, NotedAnchor, ReadCache, Restore
from tapebook.log.verify import Finding, RebuiltTables, rebuild_tables, verify_log

__all__ = [
    "Draft",
    "Event",
    "Finding",
    "Head",
    "KeyedWrite",
    "LateDraft",
    "Lease",
    "Leases",
    "Log",
    "NotedAnchor",
    "Projection",
    "ReadCache",
    "RebuiltTables",
    "Restore",
    "Stream",
    "Write",
    "rebuild_tables",
    "verify_log",
]
