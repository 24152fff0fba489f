"""Numbers that look random and are a function of their seed: bytes of SHAKE-256, the same on every machine."""

import hashlib

import numpy as np
import numpy.typing as npt

Draws = npt.NDArray[np.uint64]


def throw(seed: str, count: int) -> Draws:
    """So many integers of 64 bits, evenly spread."""
    return np.frombuffer(hashlib.shake_256(seed.encode()).digest(8 * count), dtype="<u8").astype(np.uint64)


def below(draws: Draws, most: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Draws as integers from 0 to below each bound, of which none exceeds 32 bits, from their upper halves."""
    return ((draws >> np.uint64(32)) * most.astype(np.uint64) >> np.uint64(32)).astype(np.int64)
