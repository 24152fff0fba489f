"""A listing says only what was known, and its details leave no trace."""

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity
from tapebook.domain.units import HOUR, MINUTE
from tapebook.world.assets import asset_of
from tapebook.world.drivers import DriverMove
from tapebook.world.listings import Listing, ListingMinute

STILL = DriverMove(calm=0.0, jump=0.0, jump_step=0, vol=1.0)
SOL = asset_of("SOL")


def test_details_left_out_change_nothing_later() -> None:
    walked, skipped = Listing(SOL, 1), Listing(SOL, 1)
    for number in range(30):
        turn = walked.advance(STILL, 1.0)
        walked.open_minute(turn, number=number, at=number * MINUTE)
        skipped.advance(STILL, 1.0)
    one, two = walked.advance(STILL, 1.0), skipped.advance(STILL, 1.0)
    assert one == two
    seen, unseen = (each.open_minute(one, number=30, at=30 * MINUTE) for each in (walked, skipped))
    assert seen.mids_e8 == unseen.mids_e8
    assert seen.reports[1:] == unseen.reports[1:]


def test_reports_do_not_depend_on_the_minute_they_open() -> None:
    """Two markets alike until now: what is reported now is alike too, whatever comes next."""
    calm, crash = Listing(SOL, 1), Listing(SOL, 1)
    for _ in range(60):
        calm.advance(STILL, 1.0)
        crash.advance(STILL, 1.0)
    before = calm.advance(STILL, 1.0)
    after = crash.advance(DriverMove(calm=-2.0, jump=0.0, jump_step=0, vol=9.0), 1.0)
    assert before.minute != after.minute
    assert (before.known, before.known_heat) == (after.known, after.known_heat)


def test_the_kinds_of_reports_and_when_they_are_due() -> None:
    listing = Listing(SOL, 1)
    due = {}
    for number in range(61):
        turn: ListingMinute = listing.advance(STILL, 1.0)
        reports = listing.open_minute(turn, number=number, at=number * MINUTE).reports
        due[number] = [type(report) for report in reports if report is not None]
    assert due[0] == [Liquidity, AssetContext]
    assert due[1] == due[59] == [Candle]
    assert due[5] == due[55] == [Candle, Liquidity, AssetContext]
    assert due[HOUR // MINUTE] == [Candle, Liquidity, AssetContext, FundingRate]
