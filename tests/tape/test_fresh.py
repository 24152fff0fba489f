"""A snapshot counts from its own instant, and for fifteen minutes."""

import msgspec
import pytest

from tapebook.domain.units import MINUTE
from tapebook.tape.features import is_fresh, newest_fresh

AS_OF = 1_760_000_400_000


class Seen(msgspec.Struct, frozen=True):
    """A snapshot with nothing but its instant."""

    bucket_ts: int


@pytest.mark.parametrize(
    ("age", "fresh"),
    [(-1, False), (0, True), (1, True), (15 * MINUTE, True), (15 * MINUTE + 1, False)],
)
def test_age_decides(age: int, fresh: bool) -> None:
    assert is_fresh(AS_OF - age, as_of=AS_OF) is fresh
    assert newest_fresh([Seen(AS_OF - age)], as_of=AS_OF) == (Seen(AS_OF - age) if fresh else None)


def test_the_newest_wins_in_any_order_and_the_future_never() -> None:
    seen = [Seen(AS_OF - 3 * MINUTE), Seen(AS_OF - MINUTE), Seen(AS_OF + 1), Seen(AS_OF - 2 * MINUTE)]
    assert newest_fresh(seen, as_of=AS_OF) == Seen(AS_OF - MINUTE)
    assert newest_fresh([], as_of=AS_OF) is None
