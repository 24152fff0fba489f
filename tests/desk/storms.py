"""One storm, compared with the undisturbed ingestion of the same world."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tapebook.domain.units import HOUR, MINUTE
from tapebook.world.server import Faults
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, Storm

START = BORN + 2 * HOUR + 50 * MINUTE
"""Ten minutes before the hour, so that funding is settled in a short storm too."""
LATE = 7 * MINUTE
"""After this long every bar that will be corrected has been, and every bar that came late is there."""


class Outcome(msgspec.Struct, frozen=True):
    """What a storm did, and whether the tape is none the worse for it."""

    kills: int
    faults: dict[str, int]
    rows: dict[str, int]
    bars: int
    unequal_bars: list[tuple[str, int]]
    rates: int
    rates_are_equal: bool
    gaps: dict[str, int]
    ledgers: dict[str, weather.Ledger]
    looks: int
    changed_looks: list[int]

    def assert_whole(self) -> None:
        """Fails with what is wrong."""
        assert self.bars and not self.unequal_bars
        assert self.rates and self.rates_are_equal
        for channel, found in self.ledgers.items():
            assert not found.unnamed, f"{channel}: missing, and in no gap"
            assert not found.false, f"{channel}: in a gap, and there"
            assert not found.twice, f"{channel}: in two gaps"
        assert self.looks and not self.changed_looks, "what was known at a moment has changed since"

    def figures(self) -> dict[str, Any]:
        """The numbers alone."""
        return {
            "kills": self.kills,
            "faults": self.faults,
            "rows": self.rows,
            "equal_candles": self.bars - len(self.unequal_bars),
            "unequal_candles": len(self.unequal_bars),
            "equal_funding_rates": self.rates if self.rates_are_equal else 0,
            "gaps": self.gaps,
            "single_missing_buckets_not_named": {name: found.excused for name, found in self.ledgers.items()},
            "as_of_reads_compared": self.looks,
            "as_of_reads_changed": len(self.changed_looks),
        }


def storm(
    folder: Path, *, seed: int, minutes: int, speed: float, lives: tuple[float, float], **worse: float
) -> Outcome:
    """Runs the storm and the undisturbed ingestion, and compares them; `worse` are chances of faults."""
    until = START + minutes * MINUTE
    faults = msgspec.structs.replace(Faults.storm(seed), window=(START, until), **worse)
    history = START - BORN
    server = weather.world_server(seed=seed, faults=faults, history_ms=history)
    raging = Storm(weather.make_home(folder / "storm"), server, speed=speed, seed=seed)
    raging.rage(until=until, calm=until + LATE, lives=lives)
    calm = weather.world_server(seed=seed, faults=weather.market_faults(faults), history_ms=history)
    weather.undisturbed(weather.make_home(folder / "calm"), calm, until=until, calm=until + LATE)
    return _compared(folder, raging, until=until)


def _compared(folder: Path, raging: Storm, *, until: int) -> Outcome:
    # The first process starts a little later than the world, and looks an hour back from there.
    since = START - HOUR // 2
    with weather.opened(folder / "storm") as storm, weather.opened(folder / "calm") as calm:
        found = weather.bars(storm.tape, since=since, until=until)
        wanted = weather.bars(calm.tape, since=since, until=until)
        rates = weather.rates(calm.tape, since=since, until=until)
        digests = {at: weather.digest(storm.tape, as_of=at) for at in raging.seen}
        return Outcome(
            kills=raging.kills,
            faults=dict(Counter(fault.kind for fault in raging.server.injected_faults)),
            rows={channel.name: channel.rows for channel in storm.tape.channels()},
            bars=len(wanted),
            unequal_bars=[place for place in found.keys() | wanted.keys() if found.get(place) != wanted.get(place)],
            rates=len(rates),
            rates_are_equal=rates == weather.rates(storm.tape, since=since, until=until),
            gaps=dict(Counter(each.gap.channel for each in storm.tape.gaps(as_of=weather.FOREVER))),
            ledgers=weather.ledgers(storm.tape),
            looks=len(digests),
            changed_looks=[at for at, seen in raging.seen.items() if digests[at] != seen],
        )
