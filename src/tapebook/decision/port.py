"""What an engine is: one call, a packet in, the raw text of a reply out."""

from typing import Protocol

from tapebook.domain.packet import Packet


class Engine(Protocol):
    """Anything that can answer a packet."""

    def decide(self, packet: Packet) -> str:
        """The reply as text; it is parsed and judged by others."""
        ...
