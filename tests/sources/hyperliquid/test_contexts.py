"""Contexts, predicted and settled funding as facts."""

from tapebook.domain.market import AssetContext, FundingRate, PredictedFunding
from tapebook.domain.units import E8, HOUR
from tapebook.sources.hyperliquid.contexts import contexts_of, funding_of, predicted_of
from tapebook.sources.hyperliquid.wire import ContextRow, FundingRow, Perp, Perps, VenueRow

ROW = ContextRow("0.0000125", "24469.14838", "70736.0", "70770.0", "-0.0004239084")


def test_contexts_are_of_watched_perps_only() -> None:
    answer = Perps(
        [Perp("BTC"), Perp("MATIC", is_delisted=True), Perp("ETH"), None],
        [ROW, ContextRow("0.0", "0.0", "0.37", "0.37"), ContextRow("-0.00001", "1.5", "2000.1", "2000", None), ROW],
    )
    facts, problems = contexts_of(answer, dex="", watched={"BTC", "ETH"}, bucket_ts=60_000)
    assert not problems
    assert facts == [
        AssetContext("BTC", 60_000, 12_500_000, -423_908_400, 24_469.14838, 70_736 * E8, 70_770 * E8),
        AssetContext("ETH", 60_000, -10_000_000, 0, 1.5, 200_010_000_000, 2_000 * E8),
    ]


def test_a_builder_dex_is_part_of_the_symbol() -> None:
    answer = Perps([Perp("xyz:TSLA"), Perp("NVDA")], [ROW, ROW])
    facts, _ = contexts_of(answer, dex="xyz", watched={"xyz:TSLA", "xyz:NVDA"}, bucket_ts=0)
    assert [fact.symbol for fact in facts] == ["xyz:TSLA", "xyz:NVDA"]


def test_a_context_that_is_none_does_not_hide_the_others() -> None:
    odd = [ContextRow("x", "1", "1", "1"), ContextRow("0", "-1", "1", "1"), ContextRow("0", "1", "0", "1")]
    odd.append(ContextRow("1e9", "1", "1", "1"))
    perps: list[Perp | None] = [Perp(name) for name in "ABCDE"]
    facts, problems = contexts_of(Perps(perps, [*odd, ROW]), dex="", watched=set("ABCDE"), bucket_ts=0)
    assert [fact.symbol for fact in facts] == ["E"] and len(problems) == 4


def test_each_venue_keeps_its_own_interval() -> None:
    venues: list[tuple[str, VenueRow | None]] = [
        ("BinPerp", VenueRow("0.00005", 4 * HOUR, 4)),
        ("HlPerp", VenueRow("0.0000125", HOUR, 1)),
        ("BybitPerp", VenueRow("-0.0001", 8 * HOUR)),
        ("OtherPerp", None),
    ]
    rows = [("0G", venues), ("MATIC", venues)]
    facts, problems = predicted_of(rows, watched={"0G"}, bucket_ts=60_000)
    assert not problems
    assert facts == [
        PredictedFunding("0G", 60_000, "BinPerp", 50_000_000, 4, 4 * HOUR),
        PredictedFunding("0G", 60_000, "HlPerp", 12_500_000, 1, HOUR),
        PredictedFunding("0G", 60_000, "BybitPerp", -100_000_000, None, 8 * HOUR),
    ]


def test_a_settled_rate_belongs_to_its_hour() -> None:
    rows = [FundingRow("BTC", "0.0000125", HOUR + 39, "-0.0002437152"), FundingRow("BTC", "-0.0000081", 2 * HOUR)]
    facts, problems = funding_of("BTC", rows, until=2**62)
    assert not problems
    assert facts == [FundingRate("BTC", HOUR, 12_500_000, -243_715_200), FundingRate("BTC", 2 * HOUR, -8_100_000, 0)]


def test_the_rate_of_another_coin_is_no_answer() -> None:
    facts, problems = funding_of("BTC", [FundingRow("ETH", "0.1", HOUR)], until=HOUR)
    assert not facts and len(problems) == 1
    assert funding_of("xyz:TSLA", [FundingRow("TSLA", "0.1", HOUR)], until=HOUR)[0]
