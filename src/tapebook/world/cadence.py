"""The beats of the world: what happens every five seconds, every five minutes, and how many make a day."""

from tapebook.domain.instants import DAY, MINUTE, SECOND

STEP = 5 * SECOND
REPORT_EVERY = 5 * MINUTE

STEPS_PER_MINUTE = MINUTE // STEP
MINUTES_PER_DAY = DAY // MINUTE
