"""A simulated rendezvous server: the real server on virtual clocks."""

from __future__ import annotations

from random import Random

import msgspec

from hopline.cluster import LeaseSettings, RendezvousAddress, SynodSettings
from hopline.message import WireFormat
from hopline.rendezvous import RelaySettings, RendezvousServer, RendezvousSettings
from hopline.rendezvous.clocks import Clocks
from hopline.simulation.network import FORMATS, VirtualNetwork
from hopline.simulation.transport import SimulatedTransport

_START_TICKS = 638_000_000_000_000_000  # a day in 2022
_TICKS_PER_SECOND = 10_000_000


class SynodShape(msgspec.Struct, frozen=True):
    """What all servers of a simulation have in common."""

    count: int
    lease: LeaseSettings

    @property
    def members(self) -> list[str]:
        """The addresses at which the servers elect their leader."""
        return [f"tcp://r{number}:9000" for number in range(self.count)]

    @property
    def addresses(self) -> list[RendezvousAddress]:
        """The addresses under which nodes reach the servers."""
        return [
            RendezvousAddress(f"tcp://r{number}:8001", f"tcp://r{number}:8011", f"tcp://r{number}:8111")
            for number in range(self.count)
        ]


class SimulatedServer:
    """One server that can crash and start again, each time with another identity."""

    def __init__(
        self,
        number: int,
        shape: SynodShape,
        network: VirtualNetwork,
        random: Random,
        wire_format: WireFormat | None = None,  # by default any
    ) -> None:
        self.name = f"r{number}"
        self.address = shape.addresses[number]
        self.is_up = False
        self._network = network
        self._random = random
        self._transport = SimulatedTransport(network, self.name)
        self.host = self._transport.host
        self._drift = shape.lease.clock_drift
        self._clock_offset = 0.0
        self.change_clock_offset()
        settings = RendezvousSettings(
            address=self.address.broadcast_uri,
            unicast_address=self.address.unicast_uri,
            partner_address=self.address.partner_broadcast_uri,
            synod_address=shape.members[number],
            synod=shape.members,
            open_without_keys=True,
            relay=RelaySettings(
                heartbeat_interval=1.0, holding_time=2.0, wire_format=wire_format or random.choice(FORMATS)
            ),
            lease=shape.lease,
            synod_health=SynodSettings(heartbeat_interval=1.0),
            transport=self._transport,
        )
        clocks = Clocks(self._utc, self._monotonic)
        self._server = RendezvousServer(settings, clocks=clocks, random=random)

    def _utc(self) -> int:
        seconds = self._network.loop.time() + self._clock_offset
        return _START_TICKS + round(seconds * _TICKS_PER_SECOND)

    def _monotonic(self) -> int:
        return round(self._network.loop.time() * _TICKS_PER_SECOND)

    def change_clock_offset(self) -> None:
        """Set the wall clock wrong by a random time. Any two servers differ by at most the permitted drift."""
        self._clock_offset = self._random.uniform(-0.5, 0.5) * self._drift

    @property
    def is_leader(self) -> bool:
        """Whether the server believes now, by its own clock, that it leads."""
        return self.is_up and self._server.is_leader

    @property
    def relayed(self) -> int:
        """The number of messages that it has relayed since it started."""
        return self._server.statistics.relayed

    async def start(self) -> None:
        """Start the server."""
        await self._server.start()
        self.is_up = True

    async def crash(self, *, is_noticed: bool) -> None:
        """Stop the server at once, without its state.

        Args:
            is_noticed: Whether others notice that their connections broke.
        """
        self.is_up = False
        self._transport.crash(is_noticed=is_noticed)
        await self._server.stop()
