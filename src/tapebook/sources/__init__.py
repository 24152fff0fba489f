"""Sources: adapters that watch a market, one package each; its `SOURCE` says what it delivers (`tape/source.py`).

takes:  frames and answers of an exchange, and from the tape where to resume
gives:  observations, gaps and problems, handed to a sink
never:  commits, raises because of one bad frame
"""

from collections.abc import Collection, Iterable

from tapebook import plug
from tapebook.tape.source import SourceAdapter


def load_sources(names: Iterable[str], *, tables_of: Collection[str] = ()) -> tuple[SourceAdapter, ...]:
    """The sources of these names, in their order; an unknown one is refused with the names that exist.

    Behind them come those whose tables are of the packages `tables_of`.
    """
    found = []
    for name in names:
        adapter: SourceAdapter = plug.load("tapebook.sources", name).SOURCE
        found.append(adapter)
    left = {*tables_of} - {each.migrations for each in found}
    if left:
        found += [each for each in load_sources(plug.names("tapebook.sources")) if each.migrations in left]
    return tuple(found)
