"""The archive: immutable bytes by name, for what is too large for a database row or must outlive it.

takes:  bytes
gives:  a key made from their content, and the bytes back
never:  changes what it has, or forgets it, old backups apart
"""

from tapebook.archive.check import ArchiveFinding, ArchiveReference, check_archive
from tapebook.archive.port import Archive, open_archive, put_cold, put_content
from tapebook.archive.spool import DrainResult, SpooledArchive, SpoolState, StoredContent

__all__ = [
    "Archive",
    "ArchiveFinding",
    "ArchiveReference",
    "DrainResult",
    "SpoolState",
    "SpooledArchive",
    "StoredContent",
    "check_archive",
    "open_archive",
    "put_cold",
    "put_content",
]
