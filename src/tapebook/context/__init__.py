"""The packet: everything the engine gets to see, bounded and reproducible.

takes:  a Situation
gives:  a packet within its budget, with canonical bytes and hashes
never:  reads a database, a clock or a file
"""

from tapebook.context.assemble import assemble
from tapebook.context.render import RENDERER
from tapebook.context.situation import Situation

__all__ = ["RENDERER", "Situation", "assemble"]
