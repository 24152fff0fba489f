"""Random streams: one independent `random.Random` per seed, purpose and symbol.

Python's own `hash()` differs from process to process, so the seed of a stream is a digest of its
name. Because every asset draws from its own streams, listing one more changes no other path.
"""

import hashlib
from random import Random


def random_stream(seed: int, purpose: str, symbol: str = "") -> Random:
    """The stream of one purpose; without a symbol it belongs to the whole market."""
    return Random(stream_seed(seed, purpose, symbol))


def stream_seed(seed: int, purpose: str, symbol: str = "", *, minute: int = 0) -> int:
    """The number that starts a stream; with a minute, a fresh stream for that minute alone."""
    name = f"{seed}/{purpose}/{symbol}/{minute}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "big")
