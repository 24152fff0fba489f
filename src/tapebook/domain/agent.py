"""Who trades: a versioned profile, and the deployment that runs it against one broker."""

from typing import Literal

import msgspec

from tapebook.domain.instants import MINUTE
from tapebook.domain.memory import ExperienceSettings
from tapebook.domain.money import E6
from tapebook.domain.note import Reflection

Horizon = Literal["scalp", "intraday", "swing", "position"]
MarginMode = Literal["cross", "isolated"]
Mode = Literal["trade", "dry_run"]

MOST_TRADES_SHOWN = 30

HORIZONS: dict[Horizon, tuple[int, int]] = {
    "scalp": (1, 60),
    "intraday": (30, 48),
    "swing": (180, 56),
    "position": (720, 60),
}
"""How far back each horizon looks: minutes of a bar, and how many bars. An hour, a day, a week and thirty days.

Sixty bars fit their section of the packet whatever they cost, so none of a horizon is ever left out.
"""


class RiskCaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """Limits the guard enforces; the packet shows them, no text can change them.

    A position cap is of one symbol, the account cap of all of them together, working orders included.
    """

    max_position_usd_e6: int = 2_000 * E6
    max_leverage: int = 5
    min_notional_usd_e6: int = 10 * E6
    max_data_age_ms: int = 120_000
    max_account_usd_e6: int = 10_000 * E6
    max_daily_loss_usd_e6: int = 1_000 * E6
    max_orders_per_hour: int = 60
    max_price_deviation_ppm: int = 20_000
    cooldown_ms: int = 0
    max_model_usd_e6_per_run: int = E6 // 2
    max_model_usd_e6_per_day: int = 10 * E6


class ContextProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """How much of each memory the packet offers; without `memory` it shows the market and the portfolio alone."""

    horizon: Horizon = "intraday"
    bar_minutes: int = 5
    bar_count: int = 100
    recent_trades_k: int = 10
    memory: bool = True


def context_of(horizon: Horizon) -> ContextProfile:
    """A context profile with the bars of a horizon; pinned, so that a later table does not change who is there."""
    minutes, count = HORIZONS[horizon]
    return ContextProfile(horizon=horizon, bar_minutes=minutes, bar_count=count)


class AgentProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything an agent is, apart from what it remembers. A change makes a new version.

    An empty engine means the default of the home's settings; `model` and `members` are for engines that need them.
    `shadow` is a second context profile whose decisions are recorded beside the real ones and never traded. `skills`
    name whose promoted lessons it is told besides those of its own name. In the mode `dry_run` it decides and is
    guarded, and its orders are written down without being sent.
    """

    name: str
    watchlist: tuple[str, ...]
    engine: str = ""
    broker: str = "paper"
    cadence_ms: int = 5 * MINUTE
    strategy: str = ""
    avoid: tuple[str, ...] = ()
    caps: RiskCaps = RiskCaps()
    context: ContextProfile = ContextProfile()
    starting_cash_usd_e6: int = 10_000 * E6
    model: str = ""
    members: tuple[str, ...] = ()
    margin: MarginMode = "cross"
    manual: str = ""
    shadow: ContextProfile | None = None
    enabled: bool = True
    reflection: Reflection = Reflection()
    experience: ExperienceSettings = ExperienceSettings()
    skills: tuple[str, ...] = ()
    mode: Mode = "trade"


# No name of a broker has a hyphen, so no other deployment can end like this.
_DRY = "-dry"


def deployment_id(agent: AgentProfile) -> str:
    """One deployment per agent, broker and mode: a dry run shares no account, memory or activity with trading."""
    return f"{agent.name}.{agent.broker}{_DRY if agent.mode == 'dry_run' else ''}"


def is_dry(deployment: str) -> bool:
    """Whether a deployment is of a dry run, by its id."""
    return deployment.endswith(_DRY)


class Deployment(msgspec.Struct, frozen=True):
    """One agent version running against one broker; its id names its stream in the log."""

    owner: str
    id: str
    agent: AgentProfile
    version: int

    @property
    def stream(self) -> str:
        """Owner and deployment as one name, which no other has."""
        return f"{self.owner}/{self.id}"
