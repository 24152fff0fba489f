"""Once in every bucket."""

from tapebook.sources.hyperliquid.rest import Poll


def test_a_poll_is_due_once_in_every_bucket() -> None:
    poll = Poll(60)
    assert [poll.due_bucket(at) for at in (130, 179, 180, 181, 400, 399)] == [120, None, 180, None, 360, None]
    assert poll.ends_at(120) == 180


def test_a_delayed_poll_waits_in_its_bucket() -> None:
    poll = Poll(60, delay=15)
    assert [poll.due_bucket(at) for at in (134, 135, 180, 194, 195)] == [60, 120, None, None, 180]
    assert poll.ends_at(180) == 255


def test_what_the_tape_has_is_not_due() -> None:
    poll = Poll(60, newest=121)
    assert [poll.due_bucket(at) for at in (179, 180)] == [None, 180]
