"""What was known at a sequence number, and what follows from it until the next outcome is learned."""

from collections.abc import Sequence

from tapebook.domain.memory import ExperienceRow, ExperienceSettings
from tapebook.experience.fits import Fit
from tapebook.experience.outcomes import Outcome
from tapebook.experience.recent import Recent
from tapebook.experience.records import ALL, CONFIDENCE, PROVIDER, PROVIDER_REGIME, Key, Record, learned
from tapebook.experience.rows import StandingRows
from tapebook.experience.sights import Reading

# What a packet asks of every time; assets, of which there may be a thousand, are asked for by name.
EVERY_TIME = (ALL, PROVIDER, PROVIDER_REGIME, CONFIDENCE)

Said = tuple[str, str, tuple[str, ...], float]
Asked = tuple[str, tuple[str, ...], Reading | None, Record, ExperienceSettings]
"""All that rows depend on for a symbol: the regime, the providers, what is seen, the last days, the settings."""


class Standing:
    """The newest outcome's sequence number, how many situations there were with it, and the records.

    `records` are those every decision asks for. The rest is read or worked out when somebody asks, and kept with
    them: the fit, records by name, rows by what they were asked about, the last days by what they depend on, and
    all that was told last of each symbol, which most decisions of a half hour are told again.
    """

    def __init__(self, deployment: str, *, seq: int = 0, situations: int = 0, records: dict[Key, Record]) -> None:
        self.deployment = deployment
        self.seq = seq
        self.situations = situations
        self.records = records
        self.fits: list[Fit | None] = []
        self.named: dict[Key, Record] = {}
        self.rows: dict[Said, StandingRows] = {}
        self.recent: dict[ExperienceSettings, Recent] = {}
        self.told: dict[str, tuple[Asked, tuple[ExperienceRow, ...]]] = {}

    def take_over(self, older: "Standing", outcomes: Sequence[Outcome]) -> None:
        """Becomes what an older standing is after some more outcomes."""
        self.records, self.named = dict(older.records), dict(older.named)
        for outcome in outcomes:
            for record in learned(self.records | self.named, outcome):
                if record.kind in EVERY_TIME:
                    self.records[record.key] = record
                elif record.key in self.named:
                    self.named[record.key] = record
        ended = [(outcome.exited_at, outcome.result_ppm, outcome.net_usd_e6) for outcome in outcomes]
        self.recent = {
            settings: kept for settings, kept in older.recent.items() if all([kept.add(each) for each in ended])
        }
