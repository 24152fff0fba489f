"""The packet: everything the engine gets to see, bounded and reproducible.

takes:  a Situation
gives:  a packet within its budget, with canonical bytes and hashes
never:  reads a database, a clock or a file
"""

from tapebook.context.assemble import (
    SECTION_CAPS,
    PacketCaches,
    PacketDigest,
    assemble_packet,
    packet_digest,
    packet_of_facts,
)
from tapebook.context.preview import Preview, PreviewPart, oversize_problems, preview_packet
from tapebook.context.render import MEMORY_CAP
from tapebook.context.situation import (
    CURRENT_RENDERER,
    CURRENT_VERSION,
    PACKET_VERSIONS,
    Feature,
    Market,
    MarketCache,
    MarketKey,
    PacketVersion,
    Situation,
)

__all__ = [
    "CURRENT_RENDERER",
    "CURRENT_VERSION",
    "MEMORY_CAP",
    "PACKET_VERSIONS",
    "SECTION_CAPS",
    "Feature",
    "Market",
    "MarketCache",
    "MarketKey",
    "PacketCaches",
    "PacketDigest",
    "PacketVersion",
    "Preview",
    "PreviewPart",
    "Situation",
    "assemble_packet",
    "oversize_problems",
    "packet_digest",
    "packet_of_facts",
    "preview_packet",
]
