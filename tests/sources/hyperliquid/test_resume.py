"""A start after an outage, dex by dex: one dex can have been silent for longer than another."""

from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.sources.hyperliquid.gaps import KEPT_BARS, channel_of
from tapebook.sources.hyperliquid.rest import RestRequest
from tapebook.sources.hyperliquid.session import HyperliquidSession
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.wire import Ack, CandlesFrame, MidsFrame
from tests.sources.hyperliquid.test_session import CONTEXT, NOW, Desk, body

SETTINGS = HyperliquidSourceSettings(dexes=("xyz",), spot=False, audit=False)
STEP = 5_000


def desk(**resume: int) -> Desk:
    """A session on two dexes with a perp each; `mids_xyz` is the newest bucket of the builder dex."""
    made = Desk("A", settings=SETTINGS)
    named = {name.replace("_", ":"): bucket for name, bucket in resume.items()}
    made.session = HyperliquidSession(SETTINGS, resume=named, at=NOW)
    made.session.learn_names(RestRequest("names", "", 0), made.meta(), at=NOW)
    made.session.learn_names(RestRequest("names", "xyz", 0), body({"universe": [{"name": "xyz:T"}]}), at=NOW)
    return made


def test_midpoints_and_contexts_are_missing_from_the_last_of_their_own_dex_on() -> None:
    here = desk(mids=NOW - 5 * STEP, mids_xyz=NOW - HOUR, contexts=NOW - MINUTE, contexts_xyz=NOW - 5 * MINUTE)
    here.session.handle_frame(MidsFrame("", ["A"], [1]), NOW)
    here.session.handle_frame(MidsFrame("xyz", ["xyz:T"], [1]), NOW)
    for errand in here.tick(NOW):
        if errand.kind == "contexts":
            here.answer(errand, [{"universe": [{"name": "A" if errand.subject == "" else "xyz:T"}]}, [CONTEXT]], at=NOW)
    assert sorted(here.flush().named()) == [
        ("contexts", "xyz:*", NOW - 4 * MINUTE, NOW),
        ("mids", "*", NOW - 4 * STEP, NOW),
        ("mids", "xyz:*", NOW - HOUR + STEP, NOW),
    ]


def test_a_dex_the_tape_has_nothing_of_has_missed_nothing() -> None:
    here = desk(mids=NOW - STEP, contexts=NOW - MINUTE)
    here.session.handle_frame(MidsFrame("xyz", ["xyz:T"], [1]), NOW)
    assert here.flush().named() == []


def test_bars_and_rates_are_asked_for_from_the_end_of_their_own_dex() -> None:
    here = desk(candles=NOW - 2 * MINUTE, candles_xyz=NOW - 5 * HOUR, funding=NOW, funding_xyz=NOW - 9 * HOUR)
    for symbol in ("A", "xyz:T"):
        here.session.handle_frame(Ack("subscribe", "candle", symbol, ""), NOW)
    since = {(errand.kind, errand.subject): errand.since for errand in here.tick(NOW + 20_000)}
    assert since["candles", "A"] == NOW - 57 * MINUTE and since["candles", "xyz:T"] == NOW - 5 * HOUR - 55 * MINUTE
    assert since["funding", "A"] == NOW and since["funding", "xyz:T"] == NOW - 9 * HOUR


def test_what_the_exchange_has_lost_is_a_gap_of_its_dex_given_with_the_first_bar_of_it() -> None:
    here = desk(candles=NOW - 2 * MINUTE, candles_xyz=NOW - 9 * DAY)
    for symbol in ("A", "xyz:T"):
        for begins in (NOW - MINUTE, NOW):
            here.session.handle_frame(CandlesFrame((Candle(symbol, 60, begins, 1, 1, 1, 1, 1.0, 1.0, 1),)), NOW)
        named = here.flush().named()
        assert named == ([] if symbol == "A" else [("candles", "xyz:*", NOW - 9 * DAY + MINUTE, OLDEST)])


OLDEST = NOW - (KEPT_BARS - 1) * MINUTE


def test_names_of_channels() -> None:
    assert [channel_of("mids", ""), channel_of("mids", "xyz")] == ["mids", "mids:xyz"]
