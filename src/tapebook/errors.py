"""Every error tapebook raises, sorted by what the caller must do.

    TapebookError
    ├── Fix            change something and call again: exit code 2
    │   ├── ConfigError      a key or value in tapebook.toml
    │   ├── HomeError        no home, a home of another kind, or one that is in use
    │   │   └── RoleLost         another process has taken a role over while the database was away
    │   ├── UnknownName      an agent, symbol, run or adapter that does not exist
    │   ├── PluginError      an adapter of another package that cannot be used
    │   └── BadInput         a file, time or number that cannot be read
    ├── Retry          nothing is wrong, try again: exit code 75
    │   ├── Busy             another process holds the database
    │   │   └── DatabaseAway     its server does not answer: it restarts, or cannot be reached
    │   ├── BrokerAway       the broker cannot be asked about an account
    │   └── StaleWriter      another writer was first; read again, then decide
    └── Stop           do not go on before a person has looked: exit code 3
        ├── Damaged          stored data contradict themselves
        ├── StoreFailed      the disk or the server refused a write
        └── SpendLimit       the money that models may cost is spent: exit code 4

A message says what is wrong, where, and what to do, in one line.
"""


class TapebookError(Exception):
    """The base of all errors raised on purpose."""

    exit_code = 1


class Fix(TapebookError):
    """Something the caller gave must change."""

    exit_code = 2


class ConfigError(Fix):
    """A key or value in tapebook.toml is wrong; the message names its line."""


class HomeError(Fix):
    """The home folder is missing, is of another kind, or is in use by another process."""


class RoleLost(HomeError):
    """Another process has taken a role over while the database was away; whoever lost it stands by."""


class UnknownName(Fix):
    """An agent, symbol, run or adapter of that name does not exist; the message names those that do."""


class PluginError(Fix):
    """An adapter of another package cannot be loaded; the message names the package and what is wrong with it."""


class BadInput(Fix):
    """A file, time or number cannot be read."""


class Retry(TapebookError):
    """Nothing is wrong with the call; the same call may succeed later."""

    exit_code = 75


class Busy(Retry):
    """Another process holds the database longer than the busy timeout."""


class DatabaseAway(Busy):
    """The database server does not answer. What was being written is there whole or not at all: ask for it again."""


class BrokerAway(Retry):
    """The broker does not say what an account holds; nothing is decided or booked on a guess, ask again."""


class StaleWriter(Retry):
    """The stream moved on since it was read; what was computed from it must be computed again."""


class Stop(TapebookError):
    """Going on could lose or falsify something; a person has to look."""

    exit_code = 3


class Damaged(Stop):
    """Stored data contradict themselves; `tapebook verify` lists where."""


class StoreFailed(Stop):
    """The disk or the database server refused a write; nothing of it was kept."""


class SpendLimit(Stop):
    """Models may cost no more: raise the limit and call again. What was paid for is kept, and is not asked again."""

    exit_code = 4
