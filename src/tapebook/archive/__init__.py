"""The archive: immutable bytes by name, for what is too large for a database row or must outlive it.

takes:  bytes
gives:  a key made from their content, and the bytes back
never:  changes or forgets what it has
"""

from tapebook.archive.check import ArchiveFinding, Reference, check_archive
from tapebook.archive.port import Archive, put_content
from tapebook.archive.spool import SPOOL, Drained, SpooledArchive, SpoolState, StoredContent

__all__ = [
    "SPOOL",
    "Archive",
    "ArchiveFinding",
    "Drained",
    "Reference",
    "SpoolState",
    "SpooledArchive",
    "StoredContent",
    "check_archive",
    "put_content",
]
