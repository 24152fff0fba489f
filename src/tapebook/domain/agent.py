"""Who trades: a versioned profile, and the deployment that runs it against one broker."""

import msgspec

from tapebook.domain.money import E6


class RiskCaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits the guard enforces; the packet shows them, no text can change them."""

    max_position_usd_e6: int = 2_000 * E6
    max_leverage: int = 5
    min_notional_usd_e6: int = 10 * E6
    max_data_age_ms: int = 120_000


class ContextProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of each memory the packet offers."""

    horizon: str = "intraday"
    bar_minutes: int = 5
    bar_count: int = 100
    recent_trades_k: int = 10


class AgentProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything an agent is, apart from what it remembers. A change makes a new version.

    An empty engine means the default of the home's settings.
    """

    name: str
    watchlist: tuple[str, ...]
    engine: str = ""
    broker: str = "paper"
    cadence_ms: int = 300_000
    strategy: str = ""
    avoid: tuple[str, ...] = ()
    caps: RiskCaps = RiskCaps()
    context: ContextProfile = ContextProfile()
    starting_cash_usd_e6: int = 10_000 * E6


class Deployment(msgspec.Struct, frozen=True):
    """One agent version running against one broker; its id names its stream in the log."""

    owner: str
    id: str
    agent: AgentProfile
    version: int
