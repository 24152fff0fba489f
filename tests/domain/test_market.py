"""A frame of midpoints says what its midpoints say."""

import pytest

from tapebook.domain.market import Mid, MidFrame


def test_a_frame_is_its_midpoints() -> None:
    frame = MidFrame(5_000, ("BTC", "ETH"), (7, 8))
    assert (len(frame), list(frame)) == (2, [Mid("BTC", 5_000, 7), Mid("ETH", 5_000, 8)])
    assert not MidFrame(5_000, (), ())


def test_every_symbol_of_a_frame_has_a_price() -> None:
    with pytest.raises(ValueError, match="symbols: 2, prices: 1"):
        MidFrame(5_000, ("BTC", "ETH"), (7,))
