"""The time of the world: steps of five seconds, reports every five minutes, and how lively each hour of a week is."""

from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND

STEP = 5 * SECOND
REPORT_EVERY = 5 * MINUTE

STEPS_PER_MINUTE = MINUTE // STEP
MINUTES_PER_DAY = DAY // MINUTE


# Volatility by UTC hour: Asia wakes at 0, Europe at 7, the US opens in the 13th hour, then the long evening.
_HOURLY = (
    *(1.00, 1.05, 0.98, 0.90, 0.83, 0.80, 0.82, 0.92),
    *(1.00, 0.98, 0.94, 0.92, 1.00, 1.28, 1.42, 1.35),
    *(1.22, 1.10, 1.02, 0.97, 0.95, 0.90, 0.86, 0.92),
)
# Markets are quieter on weekends.
_WEEKEND = 0.72

# 1 January 1970 was a Thursday.
_FIRST_WEEKDAY = 3


def session_pace(instant: int) -> float:
    """The multiple of the usual volatility at an instant, sliding from hour to hour."""
    hours, into = divmod(instant, HOUR)
    here, following = _HOURLY[hours % 24], _HOURLY[(hours + 1) % 24]
    lively = here + (following - here) * into / HOUR
    weekday = (instant // DAY + _FIRST_WEEKDAY) % 7
    return lively * _WEEKEND if weekday >= 5 else lively
