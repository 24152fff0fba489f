"""What a deployment did lately: the last hour, and the day since 00:00 UTC."""

import msgspec

LONGEST_STREAK = 50
"""As far back as a run of losses is counted, so that counting it costs the same for ever."""


class Activity(msgspec.Struct, frozen=True):
    """Counts and sums as of one moment.

    `rejections` are the codes of the guard's rules that refused something within the hour, oldest first; `refusals` are
    all that was refused: by the guard, at the send gate, by the broker, or as no readable reply. What was realised
    today is net of fees and funding. The day's start equity is that of 00:00 UTC with the transfers since then: equity
    less it is the day's result, whatever was paid in or out. A symbol's last close is its last loss too, if it lost.
    """

    rejections: tuple[str, ...] = ()
    executed_today: int = 0
    orders_last_hour: int = 0
    realised_today_usd_e6: int = 0
    day_start_equity_usd_e6: int = 0
    losing_streak: int = 0
    last_close_at: dict[str, int] = {}
    last_loss_at: dict[str, int] = {}
    refusals: tuple[str, ...] = ()
