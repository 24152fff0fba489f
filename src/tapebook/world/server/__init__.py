"""The world as a server that speaks the wire formats of Hyperliquid, Polymarket and DefiLlama on loopback.

server = WorldServer(World(7, start=…), faults=Faults.storm(1), history_ms=6 * HOUR)
url = await server.start()              # url + "/info", url + "/ws"
await server.advance(server.now)        # publishes the step at which the world begins
await server.advance(server.now + 5_000)
await server.stop()
"""

from tapebook.world.faults import Faults, InjectedFault
from tapebook.world.server.service import WorldServer

__all__ = ["Faults", "InjectedFault", "WorldServer"]
