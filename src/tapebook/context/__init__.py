"""The packet: everything the engine gets to see, bounded and reproducible.

takes:  a Situation
gives:  a packet within its budget, with canonical bytes and hashes
never:  reads a database, a clock or a file
"""

from tapebook.context.assemble import CAPS, assemble
from tapebook.context.budget import MEMORY_CAP
from tapebook.context.oversize import oversize
from tapebook.context.preview import Preview, PreviewPart, preview
from tapebook.context.shelf import MarketKey, MarketShelf
from tapebook.context.situation import Feature, Market, Situation
from tapebook.context.versions import CURRENT, RENDERER, VERSIONS, PacketVersion, version_of

__all__ = [
    "CAPS",
    "CURRENT",
    "MEMORY_CAP",
    "RENDERER",
    "VERSIONS",
    "Feature",
    "Market",
    "MarketKey",
    "MarketShelf",
    "PacketVersion",
    "Preview",
    "PreviewPart",
    "Situation",
    "assemble",
    "oversize",
    "preview",
    "version_of",
]
