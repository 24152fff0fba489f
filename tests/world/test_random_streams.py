"""A stream is known by its name alone, in every process."""

from tapebook.world.random_streams import random_stream, stream_seed


def test_the_digest_of_a_name_is_fixed() -> None:
    assert stream_seed(7, "own", "BTC") == 217675058226458461574893476178666614799


def test_every_part_of_the_name_makes_another_stream() -> None:
    seeds = {
        stream_seed(7, "own", "BTC"),
        stream_seed(8, "own", "BTC"),
        stream_seed(7, "path", "BTC"),
        stream_seed(7, "own", "ETH"),
        stream_seed(7, "own", "BTC", minute=1),
    }
    assert len(seeds) == 5


def test_the_same_name_draws_the_same_numbers() -> None:
    one, two = random_stream(7, "own", "BTC"), random_stream(7, "own", "BTC")
    assert [one.random() for _ in range(5)] == [two.random() for _ in range(5)]
