"""How far a read of the tape may see."""

import msgspec

NO_WATERMARK = 2**62


class View(msgspec.Struct, frozen=True):
    """What was known at a moment, up to a commit."""

    as_of: int
    watermark: int = NO_WATERMARK
