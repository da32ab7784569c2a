"""A simulated rendezvous server: the real one, on clocks of its own."""

from __future__ import annotations

from random import Random

import msgspec

from hopline.cluster import LeaseSettings, RelaySettings, RendezvousAddress, SynodSettings
from hopline.node import RendezvousServer, RendezvousSettings
from hopline.node.rendezvous import Clocks
from hopline.simulation.network import FORMATS, Network
from hopline.simulation.transport import SimulatedTransport

_LONG_AGO = 638_000_000_000_000_000  # ticks of some day in 2022
_TICKS = 10_000_000


class SynodShape(msgspec.Struct, frozen=True):
    """What all servers of a world have in common."""

    count: int
    lease: LeaseSettings

    @property
    def members(self) -> list[str]:
        """Where they talk to each other."""
        return [f"tcp://r{number}:9000" for number in range(self.count)]

    @property
    def addresses(self) -> list[RendezvousAddress]:
        """Where nodes find them."""
        return [
            RendezvousAddress(f"tcp://r{number}:8001", f"tcp://r{number}:8011", f"tcp://r{number}:8111")
            for number in range(self.count)
        ]


class Server:
    """One server, and what the world does to it. Each life of it has another identity."""

    def __init__(self, number: int, shape: SynodShape, network: Network, random: Random) -> None:
        self.name = f"r{number}"
        self.address = shape.addresses[number]
        self.is_up = False
        self._network = network
        self._random = random
        self._transport = SimulatedTransport(network, self.name)
        self.host = self._transport.host
        self._drift = shape.lease.clock_drift
        self._clock_offset = 0.0
        self.wander()
        settings = RendezvousSettings(
            address=self.address.broadcast_uri,
            unicast_address=self.address.unicast_uri,
            partner_address=self.address.partner_broadcast_uri,
            synod_address=shape.members[number],
            synod=shape.members,
            open_without_keys=True,
            relay=RelaySettings(heartbeat_interval=1.0, holding_time=2.0, wire_format=random.choice(FORMATS)),
            lease=shape.lease,
            synod_health=SynodSettings(heartbeat_interval=1.0),
            transport=self._transport,
        )
        self._server = RendezvousServer(settings, clocks=Clocks(self._utc, self._steady), random=random)

    def _utc(self) -> int:
        return _LONG_AGO + round((self._network.loop.time() + self._clock_offset) * _TICKS)

    def _steady(self) -> int:
        return round(self._network.loop.time() * _TICKS)

    def wander(self) -> None:
        """Let the clock be wrong in another way: any two are never further apart than they may be."""
        self._clock_offset = self._random.uniform(-0.5, 0.5) * self._drift

    @property
    def is_leader(self) -> bool:
        """Tell whether the server believes, now and by its own clock, that it leads."""
        return self.is_up and self._server.is_leader

    @property
    def relayed(self) -> int:
        """How many messages it has relayed in this life."""
        return self._server.statistics.relayed

    async def start(self) -> None:
        """Come up."""
        await self._server.start()
        self.is_up = True

    async def crash(self, *, is_noticed: bool) -> None:
        """Go down at once, and forget everything."""
        self.is_up = False
        self._transport.crash(is_noticed=is_noticed)
        await self._server.stop()
