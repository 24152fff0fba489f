"""The first frame of each bucket, and no other."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Mid
from tapebook.sources.hyperliquid.prices import MidStream
from tapebook.sources.hyperliquid.wire import MidsFrame


def frame(**prices_e8: int) -> MidsFrame:
    return MidsFrame("", list(prices_e8), list(prices_e8.values()))


def test_only_the_first_frame_of_a_bucket_counts() -> None:
    mids = MidStream("", wanted=lambda name: True)
    assert list(mids.mids_of_frame(frame(BTC=1), at=10_000)) == [Mid("BTC", 10_000, 1)]
    assert list(mids.mids_of_frame(frame(BTC=2), at=14_999)) == []
    assert list(mids.mids_of_frame(frame(BTC=3), at=15_000)) == [Mid("BTC", 15_000, 3)]
    assert list(mids.mids_of_frame(frame(BTC=4), at=12_000)) == []
    assert list(mids.mids_of_frame(frame(BTC=5), at=27_001)) == [Mid("BTC", 25_000, 5)]


def test_an_empty_frame_does_not_take_the_bucket() -> None:
    mids = MidStream("", wanted=lambda name: True)
    assert list(mids.mids_of_frame(frame(), at=10_000)) == []
    assert list(mids.mids_of_frame(frame(BTC=2), at=10_001)) == [Mid("BTC", 10_000, 2)]


def test_a_bucket_the_tape_has_is_not_taken_again() -> None:
    mids = MidStream("", wanted=lambda name: True, newest=10_000)
    assert list(mids.mids_of_frame(frame(BTC=1), at=14_000)) == []
    assert list(mids.mids_of_frame(frame(BTC=1), at=15_000)) == [Mid("BTC", 15_000, 1)]


def test_names_that_come_and_go() -> None:
    asked = []

    def wanted(name: str) -> bool:
        asked.append(name)
        return name != "MATIC"

    mids = MidStream("", wanted=wanted)
    assert list(mids.mids_of_frame(frame(BTC=1, MATIC=2), at=0)) == [Mid("BTC", 0, 1)]
    assert list(mids.mids_of_frame(frame(BTC=3, MATIC=4), at=5_000)) == [Mid("BTC", 5_000, 3)]
    assert asked == ["BTC", "MATIC"]
    assert list(mids.mids_of_frame(frame(MATIC=4, BTC=5, NEW=6), at=10_000)) == [
        Mid("BTC", 10_000, 5),
        Mid("NEW", 10_000, 6),
    ]


def test_what_is_watched_is_decided_anew_when_asked() -> None:
    live = {"BTC", "OLD"}
    mids = MidStream("", wanted=live.__contains__)
    assert len(mids.mids_of_frame(frame(BTC=1, OLD=2), at=0)) == 2
    live.remove("OLD")
    mids.forget_names()
    assert list(mids.mids_of_frame(frame(BTC=1, OLD=2), at=5_000)) == [Mid("BTC", 5_000, 1)]


def test_a_builder_dex_may_leave_itself_out_of_its_names() -> None:
    mids = MidStream("xyz", wanted=lambda name: name.startswith("xyz:"))
    given_names = mids.mids_of_frame(MidsFrame("xyz", ["xyz:TSLA", "NVDA"], [1, 2]), at=0)
    assert [mid.symbol for mid in given_names] == ["xyz:TSLA", "xyz:NVDA"]


@given(st.lists(st.integers(0, 60_000), max_size=40))
def test_no_bucket_twice_and_never_an_older_one(moments: list[int]) -> None:
    mids = MidStream("", wanted=lambda name: True)
    buckets = [mid.bucket_ts for at in moments for mid in mids.mids_of_frame(frame(BTC=1), at=at)]
    assert buckets == sorted(set(buckets))
