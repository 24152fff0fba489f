"""DefiLlama as a source: where capital is, where it goes and what is done with it, once an hour.

`wire.py` reads answers, `snapshot.py` is the hour's plan and the rows that follow; `_polling.py` beside this package
asks. Eight questions an hour; the largest answer has some ten megabytes.
"""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from tapebook.domain.market import FeatureRow
from tapebook.domain.units import HOUR
from tapebook.sources._polling import PolledReplay, PolledSource, number_of
from tapebook.sources.defillama.snapshot import NAME, DefiLlamaSnapshot, SnapshotSettings
from tapebook.tape.families import Family
from tapebook.tape.registry import MACRO_CHANNELS
from tapebook.tape.source import Sink, SourceAdapter, SourceChannel, SourceContext
from tapebook.tape.view import View

if TYPE_CHECKING:
    from tapebook.tape.store import Tape

ApiAddress = Annotated[str, Meta(pattern=r"^https?://[^\s@?#]+\Z", description="an address like https://api.llama.fi")]
SubjectCount = Annotated[int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000")]


class DefiLlamaSettings(msgspec.Struct, frozen=True):
    """The section [defillama]."""

    api_url: ApiAddress = "https://api.llama.fi"
    stablecoins_url: ApiAddress = "https://stablecoins.llama.fi"
    # Of how many subjects of a kind rows are kept, the largest first.
    chains: SubjectCount = 100
    protocols: SubjectCount = 100
    stablecoins: SubjectCount = 30


def _snapshot_settings(settings: DefiLlamaSettings, api: str, stablecoins: str) -> SnapshotSettings:
    return SnapshotSettings(
        api_url=api.rstrip("/"),
        stablecoins_url=stablecoins.rstrip("/"),
        chains=settings.chains,
        protocols=settings.protocols,
        stablecoins=settings.stablecoins,
    )


def _tvl_of(row: FeatureRow | None, at: int) -> float | None:
    # A row of another day would make a day's flow of several days.
    if row is None or at - row.bucket_ts > 3 * HOUR:
        return None
    return number_of(msgspec.json.decode(row.metrics_json, type=dict[str, Any]), "tvlUsd")


def replay(settings: DefiLlamaSettings, tape: "Tape") -> PolledReplay:
    """Snapshots that were recorded; chains are compared with rows of the recording, else with the tape's."""

    def make_session(sink: Sink, replayed: PolledReplay) -> DefiLlamaSnapshot:
        def tvl_at(subject: str, at: int) -> float | None:
            found = _tvl_of(replayed.feature("capital_base", subject, at=at), at)
            return found if found is not None else _tvl_of(tape.newest("capital_base", subject, view=View(at)), at)

        plan = _snapshot_settings(settings, settings.api_url, settings.stablecoins_url)
        return DefiLlamaSnapshot(plan, sink, newest=None, tvl_at=tvl_at)

    return PolledReplay(NAME, make_session)


def create(settings: DefiLlamaSettings, context: SourceContext) -> PolledSource:
    """The source; a world at `context.url` has both servers behind prefixes of one address."""
    api, stablecoins = settings.api_url, settings.stablecoins_url
    if context.url is not None:
        api, stablecoins = f"{context.url.rstrip('/')}/llama", f"{context.url.rstrip('/')}/stablecoins"
    tape = context.tape

    def tvl_at(subject: str, at: int) -> float | None:
        return _tvl_of(tape.newest("capital_base", subject, view=View(at)), at)

    session = DefiLlamaSnapshot(
        _snapshot_settings(settings, api, stablecoins),
        context.sink,
        newest=tape.newest_buckets().get(MACRO_CHANNELS[0]),
        tvl_at=tvl_at,
    )
    # One question a second is far below the 300 a minute that are let through.
    return PolledSource(NAME, session, context, per_second=1.0)


SOURCE = SourceAdapter(
    name=NAME,
    channels=tuple(
        SourceChannel(channel, 3 * HOUR, "features", Family(FeatureRow, f"defillama_{channel}", channel, step_ms=HOUR))
        for channel in MACRO_CHANNELS
    ),
    create=create,
    settings=DefiLlamaSettings,
    migrations="tapebook.sources.defillama",
    replay=replay,
    remedies={"refused": "see that DefiLlama can be reached; the next hour asks anew"},
)
